//! Responses and events in JSON, from NCCL 2.28.7 on.

use std::fmt;
use std::io::{self, BufRead, BufReader, Read};
use std::net::IpAddr;

use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

use super::{error_of, name, number, operation};
use crate::entity::nccl::{Answer, CommId, Communicator, Event, Launched, Process, Rank, RankState};

#[derive(Deserialize)]
struct RawAnswer {
    nccl_version: Option<String>,
    communicators: Vec<RawCommunicator>,
    ras: Option<RawRas>,
}

#[derive(Deserialize)]
struct RawRas {
    collection_time_sec: Option<f64>,
    timeouts_count: Option<u64>,
}

#[derive(Deserialize)]
struct RawCommunicator {
    hash: String,
    secondary_hash: Option<String>,
    size: Option<u32>,
    ranks: Vec<RawRank>,
    #[serde(default)]
    missing_ranks: Vec<RawRank>,
}

#[derive(Deserialize)]
struct RawRank {
    rank: u32,
    #[serde(deserialize_with = "address")]
    host: Option<IpAddr>,
    pid: i64,
    cuda_dev: Option<i64>,
    #[serde(default)]
    status: RawStatus,
    #[serde(default)]
    collective_counts: Counts,
}

#[derive(Default, Deserialize)]
#[serde(default)]
#[expect(clippy::struct_excessive_bools, reason = "as NCCL writes them")]
struct RawStatus {
    init_state: i64,
    async_error: i64,
    finalize_called: bool,
    destroy_flag: bool,
    abort_flag: bool,
    unresponsive: bool,
    considered_dead: bool,
}

/// An address; `None` for "unknown". Not stored as text, since there are thousands.
fn address<'de, D: Deserializer<'de>>(from: D) -> Result<Option<IpAddr>, D::Error> {
    Ok(Option::<String>::deserialize(from)?.and_then(|text| text.parse().ok()))
}

#[derive(Default)]
struct Counts(Launched);

impl<'de> Deserialize<'de> for Counts {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct ByName;
        impl<'de> Visitor<'de> for ByName {
            type Value = Counts;

            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("counts by operation")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Counts, A::Error> {
                let mut counts = Launched::default();
                while let Some((name, count)) = map.next_entry::<String, u64>()? {
                    let slot = &mut counts[operation(&name)];
                    *slot = Some(slot.unwrap_or(0).saturating_add(count));
                }
                Ok(Counts(counts))
            }
        }
        from.deserialize_map(ByName)
    }
}

/// Parses a response to `VERBOSE STATUS` from a stream that ends with it.
///
/// # Errors
/// If the document is invalid, or the stream fails.
pub fn answer(from: impl BufRead) -> Result<Answer, serde_json::Error> {
    let raw: RawAnswer = serde_json::from_reader(BufReader::new(Commas::new(from)))?;
    let ras = raw.ras.as_ref();
    Ok(Answer {
        version: raw.nccl_version.as_deref().map(name),
        whole: true,
        communicators: raw.communicators.len() as u64,
        collection_ns: ras.and_then(|ras| ras.collection_time_sec).and_then(nanoseconds),
        timeouts: ras.and_then(|ras| ras.timeouts_count),
        listed: raw.communicators.into_iter().map(communicator).collect(),
        ..Answer::default()
    })
}

/// Inserts the comma that NCCL 2.28.7 to 2.28.9 omit in every missing rank, between the number `nvml_dev` and the
/// name `status`: their responses are invalid JSON whenever a rank is missing. In valid JSON a string never follows a
/// number directly.
struct Commas<R> {
    from: R,
    place: Place,
}

/// Token to which the latest byte belongs.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    String,
    Escape,
    /// A number, or white space after one.
    Number,
    Other,
}

impl<R> Commas<R> {
    const fn new(from: R) -> Self {
        Self { from, place: Place::Other }
    }
}

impl<R: BufRead> Read for Commas<R> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let from = self.from.fill_buf()?;
        let (mut taken, mut given) = (0, 0);
        while let (Some(byte), Some(place)) = (from.get(taken), to.get_mut(given)) {
            given += 1;
            if (self.place, *byte) == (Place::Number, b'"') {
                (*place, self.place) = (b',', Place::Other);
                continue;
            }
            *place = *byte;
            taken += 1;
            self.place = match (self.place, *byte) {
                (Place::String, b'\\') => Place::Escape,
                (Place::String, b'"') => Place::Other,
                (Place::String | Place::Escape, _) | (_, b'"') => Place::String,
                (_, b'0'..=b'9') => Place::Number,
                (place, b' ' | b'\n' | b'\r' | b'\t') => place,
                _ => Place::Other,
            };
        }
        self.from.consume(taken);
        Ok(given)
    }
}

fn nanoseconds(seconds: f64) -> Option<u64> {
    std::time::Duration::try_from_secs_f64(seconds).ok().map(crate::util::time::nanos)
}

fn communicator(raw: RawCommunicator) -> Communicator {
    let mut furthest = Launched::default();
    let answered = raw.ranks.iter().map(|raw| rank(raw, false));
    let mut ranks: Vec<Rank> = answered.collect();
    for rank in &ranks {
        for (most, own) in furthest.iter_mut().zip(rank.launched) {
            *most = (*most).max(own);
        }
    }
    ranks.extend(raw.missing_ranks.iter().map(|raw| rank(raw, true)));
    let secondary = raw.secondary_hash.and_then(|both| {
        let (host, process) = both.split_once(':')?;
        Some((hash(host)?, hash(process)?))
    });
    let id = CommId { hash: hash(&raw.hash).unwrap_or(0), secondary };
    Communicator { id, size: raw.size, furthest, ranks, seen_ns: 0 }
}

fn hash(text: &str) -> Option<u64> {
    u64::from_str_radix(text.trim_start_matches("0x"), 16).ok()
}

fn rank(raw: &RawRank, missing: bool) -> Rank {
    let status = &raw.status;
    let state = match status {
        RawStatus { considered_dead: true, .. } => RankState::Dead,
        RawStatus { unresponsive: true, .. } => RankState::Unresponsive,
        _ if missing => RankState::NoComm,
        RawStatus { abort_flag: true, .. } => RankState::Abort,
        RawStatus { finalize_called: true, .. } | RawStatus { destroy_flag: true, .. } => RankState::Finalize,
        RawStatus { init_state: 0, .. } => RankState::Running,
        _ => RankState::Init,
    };
    Rank {
        process: Process { host: raw.host, pid: number(raw.pid) },
        gpu: raw.cuda_dev.and_then(number),
        state: Some(state),
        error: error_of(status.init_state).or_else(|| error_of(status.async_error)),
        launched: raw.collective_counts.0,
        ..Rank::new(raw.rank)
    }
}

#[derive(Deserialize)]
struct RawEvent {
    event: String,
    peer: Option<RawPeer>,
}

#[derive(Deserialize)]
struct RawPeer {
    #[serde(default, deserialize_with = "address")]
    host: Option<IpAddr>,
    pid: Option<i64>,
}

/// An event of `MONITOR`; `None` if it is none.
pub fn event(document: &[u8], time_ns: u64) -> Option<Event> {
    let raw: RawEvent = serde_json::from_slice(document).ok()?;
    let peer = raw.peer.as_ref();
    let host = peer.and_then(|peer| peer.host);
    let process = Process { host, pid: peer.and_then(|peer| peer.pid).and_then(number) };
    Some(Event { time_ns, event: name(&raw.event), process })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::nccl::server;

    #[test]
    fn ranks_that_answered_and_that_are_missing() {
        let read = answer(server::JSON_MISSING.as_bytes()).unwrap();
        assert_eq!(
            (read.version.as_deref(), read.communicators, read.timeouts),
            (Some("2.29.1"), 1, Some(0))
        );
        let [one] = &read.listed[..] else { panic!("{read:?}") };
        let secondary = Some((0xb7e7_1874_4715_6001, 0xb824_2ed2_8a71_381e));
        assert_eq!(one.id, CommId { hash: 0xae94_423c_fbb2_ef4a, secondary });
        let [running, missing] = &one.ranks[..] else { panic!("{one:?}") };
        assert_eq!((one.size, running.state, running.error), (Some(2), Some(RankState::Running), None));
        assert_eq!((missing.rank, missing.state), (1, Some(RankState::Unresponsive)));
        assert_eq!(missing.process, Process { host: "172.16.64.245".parse().ok(), pid: Some(1_524_345) });
        assert_eq!(missing.behind(&one.furthest), 0, "what it launched is not known");
    }

    #[test]
    fn the_comma_that_nccl_leaves_out_is_added_and_nothing_else() {
        let read = |text: &str| {
            let mut all = String::new();
            // However the bytes are split.
            let from = Commas::new(BufReader::with_capacity(3, text.as_bytes()));
            BufReader::with_capacity(2, from).read_to_string(&mut all).unwrap();
            all
        };
        for whole in [r#"{"a": 1, "2": "3 \" 4", "5\\": [6, -7e8], "x": "9" }"#, "", "\"", "1", "{\"1\":2}\n"]
        {
            assert_eq!(read(whole), whole);
        }
        assert_eq!(read("{\"a\": 1\n  \"b\": {\"c\":2\"d\":3}}"), "{\"a\": 1\n  ,\"b\": {\"c\":2,\"d\":3}}");
    }

    #[test]
    fn states_and_errors() {
        let status = |text: &str| {
            let document = format!(
                r#"{{"communicators":[{{"hash":"0x1","ranks":[{{"rank":0,"host":"unknown","pid":-1,"status":{{{text}}}}}]}}]}}"#
            );
            let rank = answer(document.as_bytes()).unwrap().listed[0].ranks[0].clone();
            assert_eq!(rank.process, Process { host: None, pid: None });
            (rank.state.map(RankState::name), rank.error)
        };
        for (text, state, error) in [
            (r#""init_state":7,"async_error":7"#, "init", None),
            (r#""init_state":3"#, "init", Some("Internal error")),
            (r#""async_error":6"#, "running", Some("Remote process error")),
            (r#""async_error":99"#, "running", Some("Unexpected error")),
            (r#""finalize_called":true"#, "finalize", None),
            (r#""destroy_flag":true"#, "finalize", None),
            (r#""abort_flag":true,"destroy_flag":true"#, "abort", None),
            (r#""unresponsive":true,"considered_dead":true"#, "dead", None),
        ] {
            assert_eq!(status(text), (Some(state), error), "{text}");
        }
    }

    #[test]
    fn what_is_no_answer_is_an_error_and_no_panic() {
        for text in ["", "{", "[]", "{}", r#"{"communicators":[{"hash":1}]}"#, "OK\n", "\u{0}\u{1b}[2J"] {
            assert!(answer(text.as_bytes()).is_err(), "{text}");
        }
        let odd = r#"{"nccl_version":"2.30\u001b[2J","communicators":[],"ras":{"collection_time_sec":-1.0}}"#;
        let read = answer(odd.as_bytes()).unwrap();
        assert!(!read.version.unwrap().contains('\u{1b}'));
        assert_eq!(read.collection_ns, None);
    }

    #[test]
    fn events_name_a_process_where_they_can() {
        let dead = event(server::EVENT_DEAD.as_bytes(), 5).unwrap();
        assert_eq!((dead.event.as_str(), dead.process.pid), ("PEER_DEAD", Some(1_524_345)));
        let unknown = br#"{"event":"PEER_DEAD","peer":{"addr":"10.0.0.1<4711>"},"details":""}"#;
        assert_eq!(event(unknown, 5).unwrap().process, Process { host: None, pid: None });
        assert_eq!(event(b"OK", 5), None);
    }
}
