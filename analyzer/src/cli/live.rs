//! `live` and `demo`: a live source with the same views as a replay.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Result, bail};
use rocescope_common::account::bin::LONGEST_NS;

use super::record::origin;
use super::{AttachArgs, DemoArgs, LiveArgs, Output, SourceArgs, ViewArgs, Views, chosen, format, views};
use crate::cli::confine;
use crate::cli::flight::{self, Dumps, Flight};
use crate::cli::output::{self, Interrupt};
use crate::cli::progress::Progress;
use crate::flight::recorder::Requests;
use crate::host::net::hook::HookChoice;
use crate::host::net::netns::NetNs;
use crate::sample::stream::Hello;
use crate::source::attach;
use crate::source::demo::scenario::{self, Episode, Scenario};
use crate::source::demo::stage::Stage;
use crate::source::devices::posts::Plan;
use crate::source::feed::{Command, Schedule};
use crate::source::live::{self, Config, DEFAULT_MAX_FLOWS, Running};
use crate::util::layout::plain;
use crate::util::style::Color;
use crate::util::system;
use crate::util::time::nanos;
use crate::{sandbox, tui};

/// Default idle timeout of flows: much longer than any pause between training steps, and short enough that the flow
/// table does not fill up.
pub(super) const IDLE: Duration = Duration::from_secs(600);
/// Kernel log levels of aya: 4 is debug.
const LOG_DEBUG: u8 = 4;
/// Interval of checks for the end of the demonstration.
const LOOK: Duration = Duration::from_millis(20);
/// Time for its last frames to arrive.
const SETTLE: Duration = Duration::from_millis(100);
/// The seed of the demonstration: every run is the same.
const SEED: u64 = 4791;

pub(super) fn live(args: LiveArgs, color: Color) -> Result<()> {
    if let Some(socket) = args.attach {
        return attached(socket, &args.view, color);
    }
    let netns = netns(&args.source)?;
    let interrupt = interrupt(&args.view)?;
    let mut views = views(&args.view, None)?;
    if let Some(tui) = &mut views.tui {
        tui.host = host_name();
    }
    let mut config = source(args.source, netns, &args.view, &views)?;
    let settings = args.flight.settings();
    if let Some(tui) = &mut views.tui {
        tui.dumps = settings.is_some();
    }
    if settings.is_some() {
        // The flight recorder needs samples and events, whatever the output needs.
        (config.samples, config.events_to_view) = (true, true);
    }
    let mut running = start(config)?;
    let mut flight = None;
    let dumps = settings.as_ref().map(Dumps::start).transpose()?;
    running.kept.extend(dumps.iter().flat_map(Dumps::kept));
    let notes = confine::live(views.tui.is_some(), &running.sandbox, &running.kept);
    if let Some((dumps, settings)) = dumps.zip(settings) {
        flight::announce(&settings);
        let mut report = views.report.clone();
        report.analysis.imbalance_all_links = running.interfaces > 1;
        let (feed, started) =
            Flight::start(dumps, running.feed, &report, Requests::default(), origin(None, None, true))?;
        (running.feed, flight) = (feed, Some(started));
    }
    let shown = show(running, &args.view, views, notes, interrupt, args.view.common.duration, color);
    if let Some(flight) = flight {
        flight.finish();
    }
    shown
}

/// Shows the traffic that a running agent counts.
fn attached(socket: PathBuf, view: &ViewArgs, color: Color) -> Result<()> {
    let interrupt = interrupt(view)?;
    let mut views = views(view, None)?;
    if let Some(tui) = &mut views.tui {
        tui.host = host_name();
        // Whether it keeps the last minutes the agent alone knows.
        tui.dumps = true;
    }
    let output = chosen(view);
    let connection = attach::connect(attach::Options {
        socket,
        interval: view.interval,
        samples: output.follows(),
        events: output.needs_events(),
        duration: view.common.duration,
    })?;
    // Before the first byte of the agent is read.
    let sandbox = sandbox::State::default();
    let notes = confine::live(views.tui.is_some(), &sandbox, &[]);
    let attached = confine::reading(|| connection.greet())?;
    let Hello { pid, version, interfaces, hooks, .. } = attached.hello().clone();
    let hooks = hooks.iter().map(|hook| plain(hook));
    let hooks = [format!("attached to the agent (process {pid}, rocescope {})", plain(&version))]
        .into_iter()
        .chain(hooks);
    let hooks = hooks.collect();
    let (feed, thread) = confine::reading(|| attached.start())?;
    show(
        Running { feed, thread, hooks, interfaces, sandbox, kept: Vec::new() },
        view,
        views,
        notes,
        interrupt,
        view.common.duration,
        color,
    )
}

/// The host name, for users who watch several hosts.
fn host_name() -> Option<String> {
    system::host_name().map(|name| plain(&name))
}

/// Opens the network namespace of the interfaces, before anything else is opened.
pub(super) fn netns(args: &SourceArgs) -> Result<Option<NetNs>> {
    args.netns.as_deref().map(live::netns).transpose()
}

/// Finds the interfaces of the options, before anything is written for them.
pub(super) fn check(args: &SourceArgs) -> Result<()> {
    live::check(Config { interfaces: args.interface.clone(), netns: netns(args)?, ..Config::default() })
}

/// Starts the source, with progress on a terminal: on a slow host the kernel verifies its programs for seconds.
pub(super) fn start(config: Config) -> Result<Running> {
    let _progress = Progress::waiting("loading the kernel programs".to_owned(), None);
    live::start(config)
}

/// Configuration of the source from the options.
pub(super) fn source(
    args: SourceArgs,
    netns: Option<NetNs>,
    view: &ViewArgs,
    views: &Views,
) -> Result<Config> {
    let qp_queries = args.qp_queries.unwrap_or(views.qp_queries);
    Ok(Config {
        interfaces: args.interface,
        netns,
        nccl_ras: args.nccl_ras.clone(),
        qp_probes: !args.no_qp_probes,
        qp_queries,
        fwctl: args.fwctl,
        sample_posts: args.sample_posts.map(|(window, period)| Plan {
            window_ns: nanos(window),
            every_ns: nanos(period),
            most_calls_per_s: args.sample_posts_limit,
        }),
        ..config(&args.attach, view)?
    })
}

pub(super) fn demo(args: &DemoArgs, color: Color) -> Result<()> {
    let interrupt = interrupt(&args.view)?;
    let mut views = views(&args.view, None)?;
    let stage = Stage::new()?;
    let mut config = Config {
        interfaces: stage.interfaces().to_vec(),
        netns: Some(stage.observed().try_clone()?),
        ..config(&args.attach, &args.view)?
    };
    if matches!(config.hook, HookChoice::Auto | HookChoice::Xdp) {
        config.hook = HookChoice::Private;
    }
    let watched = chosen(&args.view) == Output::Tui;
    // A report of several cycles would have an episode and its repetition as one, and the healthy time between the two
    // in its ratios.
    let cycle = match config.duration {
        _ if watched => scenario::WATCHED,
        Some(length) => length.clamp(scenario::BRIEF, scenario::WATCHED),
        None => scenario::BRIEF,
    };
    // All episodes once, measured in scenario time: a busy machine needs longer in clock time.
    let once = (!watched && config.duration.is_none()).then_some(cycle + Duration::from_millis(500));
    let limit = config.duration.or(once);
    let running = start(config)?;
    let scenario = Scenario::new(SEED, cycle);
    let length_ns = nanos(scenario.episode_length());
    let start_ns = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, nanos);
    let player = stage.start(scenario, limit)?;
    if let Some(tui) = &mut views.tui {
        let titles = Episode::ALL.map(Episode::title).to_vec();
        tui.schedule = Some(Schedule { start_ns, length_ns, titles, delayed_ns: player.delayed_ns() });
    }
    let notes = confine::live(views.tui.is_some(), &running.sandbox, &running.kept);
    let commands = running.feed.commands.clone();
    let over = AtomicBool::new(false);
    let shown = std::thread::scope(|scope| {
        if once.is_some() {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    if player.is_finished() {
                        // The last frames may still be in transit.
                        std::thread::sleep(SETTLE);
                        // If this fails, the source has ended already.
                        let _ = commands.send(Command::Stop);
                        return;
                    }
                    std::thread::sleep(LOOK);
                }
            });
        }
        let shown = show(running, &args.view, views, notes, interrupt, limit, color);
        over.store(true, Ordering::Relaxed);
        shown
    });
    player.stop();
    let sent = player.join();
    shown?;
    if let Some(error) = sent?.first_error {
        bail!("cannot send some packets of the demonstration: {error}");
    }
    Ok(())
}

fn config(attach: &AttachArgs, view: &ViewArgs) -> Result<Config> {
    let max_flows = match view.common.max_flows {
        None => DEFAULT_MAX_FLOWS,
        Some(flows) => match u32::try_from(flows) {
            Ok(flows) if flows <= live::MOST_FLOWS => flows,
            _ => bail!("--max-flows {flows}: the kernel's flow table is limited to {}", live::MOST_FLOWS),
        },
    };
    Ok(Config {
        hook: attach.hook,
        xdp_mode: attach.xdp_mode,
        promiscuous: !attach.no_promisc,
        max_flows,
        idle: Some(view.common.idle.unwrap_or(IDLE)),
        interval: view.interval,
        samples: chosen(view).follows(),
        duration: view.common.duration,
        filter: view.common.filter.clone(),
        events_to_view: chosen(view).needs_events(),
        precise_clock: !attach.no_timing,
        bin_ns: bin_ns(attach.bin)?,
        log_level: if attach.log { LOG_DEBUG } else { 0 },
        ..Config::default()
    })
}

/// Kernel programs record bins of at most 1 ms; longer bins are sums of these.
fn bin_ns(bin: Duration) -> Result<u64> {
    let bin_ns = u64::try_from(bin.as_nanos()).unwrap_or(u64::MAX);
    if bin_ns > LONGEST_NS && !bin_ns.is_multiple_of(LONGEST_NS) {
        bail!("--bin: live bins above 1ms must be whole milliseconds, such as 2ms");
    }
    Ok(bin_ns)
}

/// Catches signals for reports; the terminal view handles them itself.
fn interrupt(view: &ViewArgs) -> Result<Option<Interrupt>> {
    if chosen(view) == Output::Tui { Ok(None) } else { Interrupt::catch().map(Some) }
}

/// Shows the source until it ends, after `length` if that is known, or an interrupt arrives, then waits until
/// everything is detached.
fn show(
    running: Running,
    view: &ViewArgs,
    views: Views,
    notes: confine::Notes,
    interrupt: Option<Interrupt>,
    length: Option<Duration>,
    color: Color,
) -> Result<()> {
    let Running { feed, thread, hooks, interfaces, .. } = running;
    let Views { mut report, tui, sink, .. } = views;
    report.analysis.imbalance_all_links = interfaces > 1;
    let shown = match interrupt {
        None => output::watch(feed, tui::Options { report, notes, ..tui.unwrap_or_default() }, color),
        Some(interrupt) => {
            for hook in &hooks {
                output::say(hook);
            }
            // Lines of jsonl appear all the time and need no progress line.
            let length = length.filter(|_| chosen(view) != Output::Jsonl);
            let _progress = length.and_then(|length| Progress::running("counting packets", length));
            let shown = output::print(&feed, format(chosen(view), color), &sink, &report, &interrupt);
            drop(feed);
            shown
        }
    };
    // The source's own end has been reported through the feed.
    let _ = thread.join();
    shown
}
