//! Packets in tunnels that the kernel programs do not decode, and a replay does.

use rocescope_common::wire::SkipReason;

use super::{Sample, SourceKind};
use crate::util::units::plural;

/// Sentence with the number of packets of a live source that were skipped in such tunnels, and what to do; `None` if
/// there are none.
pub fn not_decoded_live(packets: u64) -> Option<String> {
    (packets > 0).then(|| {
        let are = if packets == 1 { "is" } else { "are" };
        format!(
            "{} {are} inside tunnels that live does not decode (MPLS, Geneve, VXLAN-GPE, one tunnel in another); \
             RoCE inside is not counted. Replay decodes it: tcpdump -i IFACE -s 256 -w tunnels.pcap, then rocescope \
             replay tunnels.pcap",
            plural(packets, "packet")
        )
    })
}

/// Skipped tunnels; true once they have been reported.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tunnels(bool);

impl Tunnels {
    /// The sentence, at the first of them.
    pub fn notice(&mut self, sample: &Sample) -> Option<String> {
        if self.0 || sample.kind != SourceKind::Live {
            return None;
        }
        let of_link = |at: usize| sample.links.get(at)?.skipped.get(SkipReason::TunnelUnparsed as usize);
        let packets = (0..sample.links.len()).filter_map(of_link).map(|counter| counter.packets).sum();
        let notice = not_decoded_live(packets);
        self.0 = notice.is_some();
        notice
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::LinkSample;
    use rocescope_common::abi::Counter;

    #[test]
    fn packets_in_tunnels_are_reported_once_and_only_live() {
        let mut sample =
            Sample { kind: SourceKind::Live, links: vec![LinkSample::default(); 2], ..Sample::default() };
        let mut tunnels = Tunnels::default();
        assert_eq!(tunnels.notice(&sample), None);
        let counter = Counter { packets: 700, bytes: 70_000 };
        sample.links.iter_mut().for_each(|link| link.skipped[SkipReason::TunnelUnparsed as usize] = counter);
        let replayed = Sample { kind: SourceKind::Replay, ..sample.clone() };
        assert_eq!(tunnels.notice(&replayed), None);
        let notice = tunnels.notice(&sample).unwrap();
        assert!(
            notice.starts_with("1,400 packets are inside tunnels") && notice.contains("rocescope replay"),
            "{notice}"
        );
        assert_eq!(tunnels.notice(&sample), None);
        assert!(not_decoded_live(1).unwrap().starts_with("1 packet is inside"));
    }
}
