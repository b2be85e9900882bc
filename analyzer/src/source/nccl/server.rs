//! A RAS server for tests, and the dialogues that it plays.
//!
//! Those in tests/data/ras were recorded from NCCL's own RAS code of six versions, with synthetic communicators,
//! since no GPU was available. Of those below, the ones marked *guide* follow the samples of NCCL's user guide in
//! form and figures; all others were written by hand from the format strings in src/ras/client_support.cc of the
//! version that they name.

use crate::entity::nccl::Nccl;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread::JoinHandle;

/// *Guide*, 2.29.1: one of two ranks does not respond.
pub(crate) const JSON_MISSING: &str = r#"{
  "nccl_version": "2.29.1",
  "cuda_runtime_version": 13000,
  "cuda_driver_version": 13000,
  "timestamp": "2025-12-19 13:06:53",
  "communicators_count": 1,
  "communicators": [
    {
      "hash": "0xae94423cfbb2ef4a",
      "secondary_hash": "0xb7e7187447156001:0xb8242ed28a71381e",
      "size": 2,
      "ranks_count": 1,
      "missing_ranks_count": 1,
      "ranks": [
        {
          "rank": 0,
          "host": "172.16.64.245",
          "pid": 1524344,
          "cuda_dev": 0,
          "nvml_dev": 0,
          "status": {
            "init_state": 0,
            "async_error": 0,
            "finalize_called": false,
            "destroy_flag": false,
            "abort_flag": false
          },
          "collective_counts": {
            "Broadcast": 0,
            "Reduce": 0,
            "AllGather": 0,
            "ReduceScatter": 0,
            "AllReduce": 0
          }
        }
      ],
      "missing_ranks": [
        {
          "rank": 1,
          "host": "172.16.64.245",
          "pid": 1524345,
          "cuda_dev": 1,
          "nvml_dev": 1,
          "status": {
            "unresponsive": true,
            "considered_dead": false
          }
        }
      ]
    }
  ],
  "ras": {
    "collection_time_sec": 0.000,
    "timeouts_count": 0
  }
}
"#;

/// Event from the user guide of NCCL 2.29.
pub(crate) const EVENT_DEAD: &str = r#"{
  "timestamp": "2025-12-19 13:07:07",
  "group": "LIFECYCLE",
  "event": "PEER_DEAD",
  "peer": {
    "host": "172.16.64.245",
    "pid": 1524345,
    "cuda_devs": [1],
    "nvml_devs": [1]
  },
  "details": ""
}
"#;

/// By hand, 2.24: without the header.
pub(crate) const TEXT_2_24: &str = "NCCL version 2.24.3 compiled with CUDA 12.6
CUDA runtime version 12060, driver version 12060

Communicators... (0.00s)
=============

Group     Comms     Nodes     Ranks     Ranks     Ranks    Status  Errors
    #  in group  per comm  per node  per comm  in group
    0         1         4         8        32        32   RUNNING  MISMATCH

Errors
======

Warnings
========

#0-0 (27a079b828ff1a75) MISMATCH
  Communicator ranks have different collective operation counts
  30 ranks have launched up to operation 6650
  2 ranks have launched up to operation 6649
  Rank 0 -- GPU 0 managed by process 483072 on node 172.16.64.210
  Rank 2 -- GPU 2 managed by process 483074 on node 172.16.64.210

";

/// Answer of NCCL 2.27, written by hand.
pub(crate) const TEXT_2_27: &str = "NCCL version 2.27.3+cuda12.9 compiled with CUDA 12.9
CUDA runtime version 12090, driver version 12090

Job summary
===========

  Nodes  Processes         GPUs  Processes     GPUs
(total)   per node  per process    (total)  (total)
      4          8            1         32       32

Communicators... (0.003s)
=============

Group     Comms     Nodes     Ranks     Ranks     Ranks    Status  Errors
    #  in group  per comm  per node  per comm  in group
    0         1         4         8        32        32   RUNNING  MISMATCH

Errors
======

Warnings
========

#0-0 (27a079b828ff1a75) MISMATCH
  Communicator ranks have different AllReduce operation counts
  30 ranks have launched up to operation 6650
  2 ranks have launched up to operation 6649
  Rank 0 -- GPU 0 (NVML 4) managed by process 483072 on node 172.16.64.210
  Rank 2 -- GPU 2 (NVML 6) managed by process 483074 on node 172.16.64.210

";

/// By hand, 2.27: one process is dead, another does not respond.
pub(crate) const TEXT_DEAD: &str = "Group     Comms     Nodes     Ranks     Ranks     Ranks    Status  Errors
    #  in group  per comm  per node  per comm  in group
    0         1         4       6-8        32        32   RUNNING  INCOMPLETE
    1         1         4         1         4         4      INIT      OK

Errors
======

INCOMPLETE
  Missing communicator data from 1 job process
  Process 3487985 on node 172.16.64.213 managing GPU 6

DEAD
  1 job process is considered dead (unreachable via the RAS network)
  Process 3487984 on node 172.16.64.213 managing GPU 5

#0-0 (cf264af53edbe986) INCOMPLETE
  Missing communicator data from 2 ranks
  Rank 21 -- GPU 5 managed by process 3487984 on node 172.16.64.213
  Rank 22 -- GPU 6 managed by process 3487985 on node 172.16.64.213

Warnings
========

TIMEOUT
  Encountered 2 communication timeouts while gathering communicator data

";

/// By hand, 2.27: errors, and ranks in different states.
pub(crate) const TEXT_ERRORS: &str =
    "Group     Comms     Nodes     Ranks     Ranks     Ranks    Status  Errors
    #  in group  per comm  per node  per comm  in group
    0         1         4         8        32        32     ABORT   ERROR

Errors
======

#0-0 (9e17999afaa87dbb) ERROR
  Initialization error on 1 rank
  Rank 7 reported System error -- GPU 7 managed by process 507292 on node 172.16.64.210
  Asynchronous errors on 2 ranks
  2 ranks reported Remote process error
  Rank 3 -- GPU 3 managed by process 507288 on node 172.16.64.210
  Rank 4 -- [process information not found]

Warnings
========

#0-0 (9e17999afaa87dbb) MISMATCH
  Communicator ranks have different status
  26 ranks have status NOCOMM
  2 ranks have status RUNNING
  Rank 0 -- GPU 0 managed by process 507285 on node 172.16.64.210
  Rank 8 -- GPU 0 managed by process 1598388 on node 172.16.64.212
  Rank 20 has status FINALIZE -- GPU 4 managed by process 3500075 on node 172.16.64.213
  Communicator ranks have different Broadcast operation counts
  30 ranks have launched up to operation 2
  Rank 9 has not launched any operations -- GPU 1 managed by process 1598389 on node 172.16.64.212

";

/// Dialogues with NCCL's own code, by version and situation: see tests/data/ras. Lines of the client begin with `> `.
pub(crate) fn recorded() -> Vec<(String, String, String)> {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/data/ras");
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let text = files.filter(|path| path.extension().is_some_and(|end| end == "txt"));
    let mut found: Vec<_> = text
        .map(|path| {
            let name = path.file_stem().unwrap().to_string_lossy().into_owned();
            let (version, situation) = name.rsplit_once('-').unwrap();
            (version.to_owned(), situation.to_owned(), std::fs::read_to_string(&path).unwrap())
        })
        .collect();
    found.sort();
    found
}

/// Plays a recorded dialogue to one client, which must send the same lines as the recorded client.
pub(crate) fn play(dialogue: String) -> (SocketAddr, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let thread = std::thread::spawn(move || {
        speak(listener.accept().unwrap().0, &dialogue);
    });
    (address, thread)
}

/// Plays a recorded dialogue on a connection.
pub(crate) fn speak(mut stream: TcpStream, dialogue: &str) {
    let mut said = BufReader::new(stream.try_clone().unwrap()).lines();
    for line in dialogue.split_inclusive('\n') {
        match line.strip_prefix("> ") {
            Some(wanted) => assert_eq!(said.next().unwrap().unwrap(), wanted.trim_end()),
            None => stream.write_all(line.as_bytes()).unwrap(),
        }
    }
}

/// NCCL versions with different capabilities.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Version {
    /// 2.24 to 2.28.3: text.
    Text,
    /// JSON, from NCCL 2.28.7 on.
    Json,
    /// 2.29 and newer: JSON and events.
    Monitor,
}

/// A server that sends `answer` to each status query, and `events` to clients that monitor; it ends after `clients`
/// clients. Each entry of the result is the data that one client has sent.
pub(crate) fn serve(
    version: Version,
    clients: usize,
    answer: &'static str,
    events: &'static str,
) -> (SocketAddr, JoinHandle<Vec<String>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let thread = std::thread::spawn(move || {
        let accept = |_| {
            let (stream, _) = listener.accept().unwrap();
            std::thread::spawn(move || client(stream, version, answer, events))
        };
        let clients: Vec<_> = (0..clients).map(accept).collect();
        // Later clients find no listener.
        drop(listener);
        clients.into_iter().map(|client| client.join().unwrap()).collect()
    });
    (address, thread)
}

fn client(mut stream: TcpStream, version: Version, answer: &str, events: &str) -> String {
    let mut sent = String::new();
    let lines = BufReader::new(stream.try_clone().unwrap()).lines();
    for line in lines.map_while(Result::ok) {
        sent.push_str(&line);
        sent.push('\n');
        let line = line.to_lowercase();
        let reply = match line.as_str() {
            "client protocol 2" => "SERVER PROTOCOL 2\n".to_owned(),
            "set format json" if version != Version::Text => "OK\n".to_owned(),
            "monitor" if version == Version::Monitor => format!("OK\n{events}"),
            "verbose status" => {
                // The client closes the connection after that.
                let _ = stream.write_all(answer.as_bytes());
                break;
            }
            other => format!("ERROR: Unknown command {other}\n"),
        };
        if stream.write_all(reply.as_bytes()).is_err() {
            break;
        }
    }
    sent
}

/// A job of two ranks in which rank 1, local process 4711, has been behind since `behind_since_ns`.
pub(crate) fn example(answered_ns: u64, behind_since_ns: u64) -> Nccl {
    let document = r#"{"nccl_version":"2.29.1","communicators":[{"hash":"0x1a","secondary_hash":"0x2:0x3","size":2,"ranks":[
        {"rank":0,"host":"192.0.2.1","pid":17,"cuda_dev":0,"collective_counts":{"AllReduce":9}},
        {"rank":1,"host":"192.0.2.2","pid":18,"cuda_dev":1,"collective_counts":{"AllReduce":7}}]}]}"#;
    let mut answer = super::json::answer(document.as_bytes()).unwrap();
    answer.listed[0].ranks[1].local = Some(4_711);
    let mut track = super::track::Track::new("localhost:28028".into(), 10_000_000_000);
    track.answered(answer.clone(), behind_since_ns);
    track.answered(answer, answered_ns);
    track.known()
}
