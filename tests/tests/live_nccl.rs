//! `rocescope live --nccl-ras`: NCCL's report of the job beside the kernel's data.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;

use rocescope_tests::live::attached::Hooks;
use rocescope_tests::live::program::Program;
use rocescope_tests::live::tcp;
use rocescope_tests::live::wire::World;
use rocescope_tests::needs_root;
use rustix::process::Signal;
use serde_json::{Value, json};

/// A response of NCCL 2.29 in which rank 1 is behind, written by hand from its sources.
const NCCL: &str = r#"{"nccl_version":"2.29.1","communicators_count":1,"communicators":[{"hash":"0xae94423cfbb2ef4a",
"secondary_hash":"0x1:0x2","size":2,"ranks":[
{"rank":0,"host":"192.0.2.2","pid":17,"cuda_dev":0,"status":{"init_state":0},"collective_counts":{"AllReduce":9}},
{"rank":1,"host":"192.0.2.2","pid":18,"cuda_dev":1,"status":{"init_state":0},"collective_counts":{"AllReduce":7}}
],"missing_ranks":[]}],"ras":{"collection_time_sec":0.002,"timeouts_count":0}}
"#;

#[test]
fn nccl_is_asked_where_the_user_says_and_only_then() {
    needs_root!();
    let (world, mut link) = World::with_link(1500).unwrap();
    tcp::prepare(&world, &link).unwrap();
    let listener = world.far.run(|| TcpListener::bind(("192.0.2.2", 0))).unwrap().unwrap();
    let address = format!("--nccl-ras=192.0.2.2:{}", listener.local_addr().unwrap().port());
    let server = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let lines = BufReader::new(stream.try_clone().unwrap()).lines();
        for line in lines.map_while(Result::ok) {
            match line.as_str() {
                "CLIENT PROTOCOL 2" => stream.write_all(b"SERVER PROTOCOL 2\n").unwrap(),
                "SET FORMAT json" => stream.write_all(b"OK\n").unwrap(),
                "VERBOSE STATUS" => return stream.write_all(NCCL.as_bytes()).unwrap(),
                other => panic!("{other}"),
            }
        }
    });
    let program =
        Program::live(&world.near, &["-i", "near0", "--output", "jsonl", "--interval", "50ms", &address])
            .unwrap();
    program.wait_for_message(|text| text.contains("may leave this host").then_some(())).unwrap();
    let nccl =
        program.reported(|report| report["nccl"]["answers"].as_u64() > Some(0)).unwrap()["nccl"].clone();
    server.join().unwrap();
    assert_eq!((&nccl["version"], &nccl["communicators_count"]), (&json!("2.29.1"), &json!(1)));
    let ranks = nccl["communicators"][0]["ranks"].as_array().unwrap();
    assert_eq!((&ranks[0]["rank"], &ranks[0]["behind"], ranks.len()), (&json!(1), &json!(2), 1), "{nccl}");
    program.signal(Signal::INT).unwrap();
    // It ends at once, although the next query is due in seconds, and all lines are valid.
    let ended = program.end().unwrap();
    assert_eq!(ended.status.code(), Some(0), "{ended:?}");
    assert!(ended.lines().unwrap().len() > 1);
    Hooks::until_gone(&world, &mut link).unwrap();

    for (options, reason) in [(&["--nccl-ras"][..], Some("localhost:28028")), (&[], None)] {
        let options = [&["-i", "near0", "--output", "json", "--duration", "1s"][..], options].concat();
        let ended = Program::live(&world.near, &options).unwrap().end().unwrap();
        let nccl = ended.report().unwrap()["nccl"].clone();
        match reason {
            Some(reason) => assert!(nccl["unavailable"].as_str().unwrap().contains(reason), "{nccl}"),
            None => assert_eq!(nccl, Value::Null),
        }
    }
}
