//! `fleet`: questions over the recordings of many hosts.

use anyhow::{Context as _, Result, anyhow, bail};

use super::config::Config;
use super::progress::Progress;
use super::{FleetArgs, FleetOutput};
use super::{confine, output};
use crate::findings::Limits;
use crate::fleet::answer::Answer;
use crate::fleet::engine::{Answers, Engine, dialect_of};
use crate::fleet::page;
use crate::fleet::question::{Chosen, Question};
use crate::fleet::recording::{Recordings, SESSION};
use crate::fleet::server::Client;
use crate::util::clickhouse::Server;
use crate::util::notice::say;
use crate::util::style::Paint;

/// Maximum number of further attempts after files were damaged or removed.
const MOST_MENDED: u32 = 5;

pub(super) fn fleet(args: &FleetArgs, paint: Paint) -> Result<()> {
    let chosen = Chosen { limits: Config::load(args.config.as_deref())?.findings, ..args.chosen() };
    if let (Some(from), Some(to)) = (args.from, args.to)
        && to <= from
    {
        bail!("--to is not after --from, so nothing is in the time range; exchange the two");
    }
    if args.print_sql {
        return output::page(&printed(args, &chosen)?);
    }
    let question = args.question.sql(&chosen);
    let (engine, mut found) = if let Some(server) = server(args)? {
        // Certificates are read here: the sandbox hides them.
        (Client::new(server, confine::names).map(Engine::Server), Recordings::default())
    } else {
        let found = recordings(args)?;
        (Engine::find(args.engine.as_deref(), std::env::var_os("PATH").as_deref()), found)
    };
    let engine = engine.map_err(|error| anyhow!(error))?;
    // A program must end with us; nothing of a server's would go on here.
    let interrupt = matches!(engine, Engine::Program(..)).then(output::Interrupt::catch).transpose()?;
    let stop = || interrupt.as_ref().is_some_and(output::Interrupt::is_set);
    let questions = [args.question.summary(&chosen), question];
    // A server's answer is read here. A program is started first: no call of the sandbox starts one. Neither says
    // before its answer how far it is.
    let answers = if let Engine::Server(server) = &engine {
        confine::fleet(Some(server.port()), args.out.as_deref());
        let _progress = Progress::waiting(format!("asking {engine}"), None);
        confine::reading(|| engine.ask("", &questions, &|| false).map_err(|error| anyhow!(error)))
    } else {
        let progress = Progress::waiting(format!("asking {engine}"), None);
        let answers = ask(&engine, &mut found, (args.question, &chosen), &questions, &stop);
        drop(progress);
        confine::fleet(None, args.out.as_deref());
        answers
    }?;
    let text = confine::reading(|| shown(&answers, args, &chosen.limits, paint))?;
    match &args.out {
        Some(file) => std::fs::write(file, text).with_context(|| format!("cannot write {}", file.display())),
        None => output::page(&text),
    }
}

/// The recordings in files, with notices of what an answer takes as one host and of what it leaves out.
fn recordings(args: &FleetArgs) -> Result<Recordings> {
    let found = Recordings::find(&args.sources).map_err(|error| anyhow!(error))?;
    for notice in found.hosts_in_several().into_iter().chain(found.of_other_versions()) {
        say(&notice);
    }
    Ok(found)
}

/// The answers as the page that was asked for.
fn shown(answers: &Answers, args: &FleetArgs, limits: &Limits, paint: Paint) -> Result<String> {
    let rows = answers.rows().map_err(|error| anyhow!(error))?;
    let top = usize::try_from(args.top).unwrap_or(usize::MAX);
    let answer = Answer::of(args.question, rows, top, limits).map_err(|error| anyhow!(error))?;
    Ok(match args.output {
        FleetOutput::Table => {
            let paint = if args.out.is_some() { Paint::PLAIN } else { paint };
            page::text(&answer, output::width(), paint)
        }
        FleetOutput::Json => page::json(&answer).context("cannot write the answer as JSON")?,
        FleetOutput::Html => page::html(&answer),
    })
}

/// Asks a program about files. A table without a file is empty. What is copied or removed meanwhile, as on a mounted
/// bucket, keeps nobody from an answer.
fn ask(
    engine: &Engine,
    found: &mut Recordings,
    (question, chosen): (Question, &Chosen),
    questions: &[String],
    stop: &dyn Fn() -> bool,
) -> Result<Answers> {
    let mut mended = 0;
    loop {
        let declarations = match engine {
            Engine::Program(_, dialect) => found.declare(question, chosen, *dialect),
            Engine::Server(_) => String::new(),
        };
        match engine.ask(&declarations, questions, stop) {
            Err(error) if found.lacks(&error) => {
                found.none_is_empty(question).map_err(|error| anyhow!(error))?;
            }
            Err(error) if mended < MOST_MENDED && !stop() => {
                let folders = found.folders();
                let damaged =
                    confine::parsing(&folders, || found.leave_out_damaged(question, chosen, &error))
                        .context("cannot start a thread")?;
                let damaged = damaged.ok_or_else(|| anyhow!(error))?;
                for (path, reason) in damaged {
                    say(&format!("left out of the answer: {}: {reason}", path.display()));
                }
                mended += 1;
            }
            answers => return answers.map_err(|error| anyhow!(error)),
        }
    }
}

/// The SQL as text: for every engine, with the tables in comments, or with those of the engine that is named.
fn printed(args: &FleetArgs, chosen: &Chosen) -> Result<String> {
    let before = if server(args)?.is_some() {
        SESSION.to_owned()
    } else {
        let found = recordings(args)?;
        match &args.engine {
            Some(engine) => found.declare(args.question, chosen, dialect_of(engine)),
            None => found.describe(args.question, chosen) + SESSION,
        }
    };
    Ok(format!("{before}{};\n", args.question.sql(chosen)))
}

/// The server, if the only source is a URL.
fn server(args: &FleetArgs) -> Result<Option<Server>> {
    let url = args.sources.iter().find(|source| Server::is_url(source));
    let server = url.map(|url| url.parse().map_err(|error: String| anyhow!("{url}: {error}"))).transpose()?;
    if server.is_some() && args.sources.len() > 1 {
        bail!("a server is the only source of a question: name one URL, or folders");
    }
    if server.is_some() && args.engine.is_some() {
        bail!("--engine is for recordings in files: the server is its own engine");
    }
    Ok(server)
}
