//! Queue pairs of a device whose list fails, and of one that its driver registers again.

use super::*;

type KnownQps = (usize, Option<(u64, Option<u64>)>, Vec<String>);

/// What is known after a list, contexts and counters at this second: queue pairs of the list, contexts of the first and
/// its packets since the first of them, and devices whose list failed.
fn known(watch: &mut Watch, host: &Recorded, second: u64) -> KnownQps {
    let now_ns = fixtures::START + second * SECOND;
    watch.read_counters(&host.root(), &host.kernel(), (now_ns, now_ns));
    let found = list(watch, host, (now_ns, now_ns));
    watch.note_list(&found, 0);
    watch.read_contexts(&host.kernel(), &now_ns);
    watch.note_counters(now_ns);
    let devices = watch.sample();
    let context = devices.contexts.qps.first().map(|qp| (qp.readings, qp.sent));
    let unlisted = devices.lists.unlisted.iter().map(|(device, _)| device.clone()).collect();
    (devices.ports[0].qps.len(), context, unlisted)
}

/// A device at this index, with a context of its queue pair.
fn host(index: u32, next: u32) -> Recorded {
    let mut text = format!("{MLX5}\n[]\n{}", answer(3, next, next, 951));
    for name in ["qp", "counters", "optional", "binding", "qp_counters", "qp_context"] {
        text = text.replace(&format!("rdma/{name}.0"), &format!("rdma/{name}.{index}"));
    }
    Recorded::unpack(&text.replace("1 u32 0\n", &format!("1 u32 {index}\n")))
}

/// A device does not answer about one of its queue pairs: then the kernel lists none of them.
#[test]
fn a_device_that_does_not_list_its_queue_pairs_keeps_them_and_their_contexts() {
    let well = |next| host(0, next);
    let sick = Recorded::unpack(&format!(
        "{}\n[]\n{}",
        MLX5.replace("rdma/qp.0 <<", "rdma/qp.9 <<"),
        answer(3, 30, 30, 951)
    ));
    let first = well(10);
    let mut watch = Watch::new(&first.root(), &first.kernel(), &[IFACE.to_owned()], &[]);
    watch.query_contexts(50);
    assert_eq!(known(&mut watch, &first, 0), (1, Some((1, Some(0))), vec![]));
    assert_eq!(known(&mut watch, &sick, 1), (1, Some((2, Some(20))), vec!["mlx5_0".to_owned()]));
    assert_eq!(known(&mut watch, &well(60), 2), (1, Some((3, Some(50))), vec![]));
    // Of one that the kernel names no more, none is left.
    let gone = Recorded::unpack(&MLX5.replace("2 text mlx5_0", "2 text mlx5_7"));
    assert_eq!(known(&mut watch, &gone, 3), (0, None, vec![]));
}

/// Of a device that lists none, queue pairs may exist that nobody knows: timeouts may be theirs.
#[test]
fn timeouts_are_certain_only_if_the_device_lists_its_queue_pairs() {
    let host = |list: &str, timeouts: u32, (next, acked)| {
        let counted = format!("local_ack_timeout_err = {timeouts}");
        let text = MLX5.replace("rdma/qp.0 <<", list).replace("local_ack_timeout_err = 0", &counted);
        Recorded::unpack(&format!("{text}\n[]\n{}", answer(3, next, acked, 951)))
    };
    for (list, certain) in [("rdma/qp.0 <<", true), ("rdma/qp.9 <<", false)] {
        let first = host("rdma/qp.0 <<", 0, (10, 10));
        let mut watch = Watch::new(&first.root(), &first.kernel(), &[IFACE.to_owned()], &[]);
        watch.query_contexts(50);
        known(&mut watch, &first, 0);
        for second in [1, 2] {
            known(&mut watch, &host(list, 3, (40, 20)), second);
        }
        let blamed = watch.sample().contexts.qps[0].blamed.unwrap();
        assert_eq!((blamed.timeouts, blamed.certain), (3, certain), "{list}");
    }
}

/// The kernel does not even name the devices; another time, one that nobody watches does not list its queue pairs.
#[test]
fn each_watched_device_that_lists_nothing_has_a_reason_and_no_other_has() {
    let first = host(0, 10);
    let mut watch = Watch::new(&first.root(), &first.kernel(), &[IFACE.to_owned()], &[]);
    watch.query_contexts(50);
    known(&mut watch, &first, 0);
    let mute = MLX5.replace("rdma/devices <<", "rdma/others <<");
    let mute = Recorded::unpack(&format!("{mute}\n[]\n{}", answer(3, 30, 30, 951)));
    let of_mute = known(&mut watch, &mute, 1);
    assert_eq!(of_mute, (1, Some((2, Some(20))), vec!["mlx5_0".to_owned()]));
    let found = list(&mut watch, &mute, (fixtures::START, fixtures::START));
    assert!(found.unread.is_some() && found.why_unlisted("mlx5_0") == found.unread.as_deref());
    let other = "67 text roce\n---\n1 u32 7\n2 text mlx5_7\n14 u8 1\n67 text roce\n>>";
    let text = MLX5.replace("67 text roce\n>>", other);
    let both = Recorded::unpack(&format!("{text}\n[]\n{}", answer(3, 60, 60, 951)));
    assert_eq!(known(&mut watch, &both, 2), (1, Some((3, Some(50))), vec![]));
    let found = list(&mut watch, &both, (fixtures::START, fixtures::START));
    assert!(found.why_unlisted("mlx5_7").is_some() && found.why_unlisted("mlx5_0").is_none());
}

/// After a reset of its firmware, or when its module is loaded again.
#[test]
fn a_device_that_is_registered_again_is_asked_by_its_new_index() {
    let before = host(0, 10);
    let mut watch = Watch::new(&before.root(), &before.kernel(), &[IFACE.to_owned()], &[]);
    watch.query_contexts(50);
    assert_eq!(known(&mut watch, &before, 0), (1, Some((1, Some(0))), vec![]));
    assert_eq!(known(&mut watch, &host(5, 500), 1), (1, Some((1, Some(0))), vec![]), "another queue pair");
    assert_eq!(known(&mut watch, &host(5, 520), 2), (1, Some((2, Some(20))), vec![]));
}
