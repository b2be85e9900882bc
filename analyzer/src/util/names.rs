//! Looks up names of hosts in a thread of its own: the thread that reads what a server answers then needs neither the
//! files of the system's resolver nor sockets for datagrams.

use std::io;
use std::sync::mpsc::{Sender, SyncSender, channel, sync_channel};
use std::thread;

use ureq::config::Config;
use ureq::http::Uri;
use ureq::unversioned::resolver::{DefaultResolver, ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport::NextTimeout;
use ureq::{Error, Timeout};

type Answer = Result<ResolvedSocketAddrs, Error>;

struct Question {
    uri: Uri,
    config: Config,
    timeout: NextTimeout,
    answer: SyncSender<Answer>,
}

/// The way to the thread, which ends with it.
#[derive(Debug)]
pub(super) struct Names(Sender<Question>);

impl Names {
    /// Starts the thread, which does `first` before anything else.
    pub(super) fn start(first: impl FnOnce() + Send + 'static) -> io::Result<Self> {
        let (ask, asked) = channel::<Question>();
        thread::Builder::new().name("names".to_owned()).spawn(move || {
            first();
            for Question { uri, config, timeout, answer } in asked {
                #[cfg(feature = "test-clock")]
                super::hijack::here("names");
                // Who asked may have ended.
                let _ = answer.send(DefaultResolver::default().resolve(&uri, &config, timeout));
            }
        })?;
        Ok(Self(ask))
    }
}

impl Resolver for Names {
    fn resolve(&self, uri: &Uri, config: &Config, timeout: NextTimeout) -> Answer {
        let (answer, answered) = sync_channel(1);
        let question = Question { uri: uri.clone(), config: config.clone(), timeout, answer };
        // The thread ends before its last question only if it panics.
        let ended = || Error::Timeout(Timeout::Resolve);
        self.0.send(question).map_err(|_| ended())?;
        answered.recv().map_err(|_| ended())?
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;
    use std::time::Duration;

    use super::*;

    fn timeout() -> NextTimeout {
        NextTimeout { after: Duration::from_secs(60).into(), ..NextTimeout::default() }
    }

    #[test]
    fn a_name_is_looked_up_by_the_thread_that_was_prepared_for_it() {
        let (tell, told) = channel();
        let names =
            Names::start(move || tell.send(thread::current().name().map(str::to_owned)).unwrap()).unwrap();
        let uri = Uri::from_static("http://localhost:4318/v1/metrics");
        let found = names.resolve(&uri, &Config::default(), timeout()).unwrap();
        assert!(
            found.iter().any(|address: &SocketAddr| address.ip().is_loopback() && address.port() == 4318)
        );
        assert_eq!(told.recv().unwrap().as_deref(), Some("names"));
        let absent = Uri::from_static("http://no-such-host.invalid/");
        assert!(names.resolve(&absent, &Config::default(), timeout()).is_err());
        // It goes on after an error.
        assert!(names.resolve(&uri, &Config::default(), timeout()).is_ok());
    }
}
