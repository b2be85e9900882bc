//! Requesters that violate the rules of packet sequence numbers.

use rocescope_common::wire::bth::MASK24;
use rocescope_common::wire::opcode::Name;

use super::ends;
use crate::analysis::Flow;
use crate::findings::title::{more, pair, title};
use crate::findings::{
    Commands, Entry, Episode, Family, Finding, Hop, Input, Place, Problem, Raise, RequiredData, Severity,
    Unit, label,
};
use crate::metrics::loss::reads::Overlap;

/// Findings of this module, with their thresholds and evidence.
pub(super) const FAMILY: Family = Family {
    entries: &[OVERLAP],
    limits: &[],
    evidence: &[
        label("requests", "request packets with a PSN of a READ", Unit::Count).summed(),
        label("psn", "PSN of the first", Unit::Id),
        label("operation", "its operation", Unit::Text),
        label("read_psn", "first PSN of the READ", Unit::Id),
        label("read_last_psn", "last PSN of the READ, at least", Unit::Id),
    ],
    check,
};

const OVERLAP: Entry = Entry {
    id: "qp.psn_overlap",
    rank: 164,
    needs: &[RequiredData::Taps],
    title: "Requester reuses PSNs of a READ",
    meaning: "A request carries a PSN that belongs to the READ before it: a READ takes one PSN for each packet of its response, and the next request starts behind them. The responder takes the request for a duplicate, acknowledges it and \
              does not execute it: the message is lost although both ends report success, or the queue pair fails.",
    computed: "Requests other than READs whose PSN is within those of the latest READ request of the same flow, behind its first: DMA length over the path MTU of the flow (over 4,096 where it is not known), without requests behind the READ \
               in between. Critical from one on: no retransmission has such a PSN.",
    advice: "This is a fault of the requester's RDMA implementation: NIC firmware, soft-RoCE driver, or a custom stack. Update it, or report it with this capture; compare its path MTU with that of the responder, \
             which decides how many PSNs a READ takes.",
    caveat: "Two connections that use one queue pair number within the capture, the second from a PSN within the last READ of the first, look the same.",
    ..Entry::of(Problem::Silent)
};

pub(super) fn check(input: &Input<'_>, found: &mut Vec<Finding>) {
    let Some(loss) = &input.sample.metrics.loss else { return };
    let mut flows: Vec<(&Flow, &Overlap)> =
        input.facts.flows.iter().filter_map(|flow| Some((flow, loss.overlaps.get(&flow.slot)?))).collect();
    flows.sort_by_key(|(flow, overlap)| {
        (std::cmp::Reverse(overlap.requests), flow.src, flow.dst, flow.dest_qp)
    });
    let Some((worst, overlap)) = flows.first().copied() else { return };
    let diagnosis = format!("PSN {} of a READ reused by the next request", overlap.psn);
    let parts = [
        pair(worst.src, worst.dst),
        format!(" QP {}", worst.dest_qp),
        more(crate::findings::dedup::count(flows.iter().map(|(flow, _)| *flow)) - 1, "QP"),
    ];
    let (requester, responder) = ends::of_data(input, [worst]);
    let here = Commands::on(input, &worst.link);
    let first_ns = flows.iter().map(|(_, overlap)| overlap.first_ns).min().unwrap_or_default();
    let last_ns = flows.iter().map(|(_, overlap)| overlap.last_ns).max().unwrap_or_default();
    // Of a damaged stream the span may be 0, and the requests any number.
    let read_last = overlap.read_psn.wrapping_add(overlap.read_span.saturating_sub(1)) & MASK24;
    let requests = flows.iter().map(|(_, overlap)| overlap.requests).fold(0, u64::saturating_add);
    Raise::new(&OVERLAP, Severity::Critical, title(diagnosis, parts))
        .evidence("requests", requests)
        .evidence("psn", overlap.psn)
        .evidence("operation", Name(overlap.opcode).to_string())
        .evidence("read_psn", overlap.read_psn)
        .evidence("read_last_psn", read_last)
        .flows(flows.iter().map(|(flow, _)| *flow))
        .place(Place::of(input, worst).hop(Hop::Requester))
        .ends(requester, responder)
        .episodes(vec![Episode { first_ns, last_ns, peak: None }])
        .step(
            format!(
                "On {}, note NIC, firmware and driver versions, and report the fault with this capture.",
                worst.src
            ),
            Commands::near(input, worst, worst.src).versions(),
        )
        .step("Compare the path MTU of both ends of the queue pair.", here.queue_pairs())
        .into(found);
}

#[cfg(test)]
mod tests {
    use crate::analysis::Options;
    use crate::analysis::fixtures::{START, key, link, sample, stats};
    use crate::findings::tests::found;
    use crate::metrics::loss::Loss;
    use crate::metrics::loss::reads::Overlap;

    #[test]
    fn a_request_within_a_read_is_a_fault_of_the_requester() {
        let flow = |qp| (key(0, "10.0.0.1", "10.0.0.2", qp), stats(50_000, 100, 100_000));
        let flows = vec![flow(17), flow(18)];
        let mut sample = sample(vec![link("h0.pcap", None)], flows);
        sample.metrics.loss = Some(Loss::default());
        let id = "qp.psn_overlap";
        assert!(found(&sample, &Options::default()).iter().all(|finding| finding.id != id));
        let overlap = Overlap {
            requests: 1,
            psn: 101,
            opcode: 4,
            read_psn: 100,
            read_span: 4,
            first_ns: START,
            last_ns: START,
        };
        sample.metrics.loss.as_mut().unwrap().overlaps.insert(0, overlap);
        let all = found(&sample, &Options::default());
        let one = all.iter().find(|finding| finding.id == id).unwrap();
        assert_eq!(one.title, "PSN 101 of a READ reused by the next request, 10.0.0.1 → 10.0.0.2 QP 17");
        assert_eq!(one.evidence.get("operation").unwrap().value, "RC_SEND_ONLY");
        assert_eq!(one.evidence.get("read_last_psn").unwrap().value, 103);

        let overlaps = &mut sample.metrics.loss.as_mut().unwrap().overlaps;
        overlaps.insert(0, Overlap { read_span: 0, ..overlap });
        overlaps.insert(1, Overlap { requests: u64::MAX, ..overlap });
        let all = found(&sample, &Options::default());
        let one = all.iter().find(|finding| finding.id == id).unwrap();
        assert_eq!(one.evidence.get("requests").unwrap().value, u64::MAX, "of a damaged stream");
    }
}
