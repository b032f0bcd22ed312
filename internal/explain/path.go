package explain

import (
	analysis "github.com/nephele-io/nephele/api/analysis/v1alpha1"
	"github.com/nephele-io/nephele/internal/cloud/trace"
)

// What is to be known of a way.
const (
	// RemarkNotPeered: no active peering connects the networks. Transit gateways and the like are
	// not read.
	RemarkNotPeered = "NotPeered"
	// RemarkSourceTranslated: the destination sees Path.SeenSource.
	RemarkSourceTranslated = "SourceTranslated"
	// RemarkSourceUnknown: the source has no public address; a NAT gateway's that is not known is
	// seen, if there is any way out.
	RemarkSourceUnknown = "SourceUnknown"
	// RemarkSentToPublic: the packet goes to Path.SentTo, through gateways, and rules that name
	// groups do not match it.
	RemarkSentToPublic = "SentToPublic"
	// RemarkNoPublicAddress: the source is in the Internet and the destination has no address
	// there.
	RemarkNoPublicAddress = "NoPublicAddress"
	// RemarkACLDenies: the network ACL Path.StoppedBy does not let it through, whatever policies
	// and groups say.
	RemarkACLDenies = "ACLDenies"
	// RemarkACLUnknown: it depends on what is not known whether Path.DoubtedBy lets it through.
	RemarkACLUnknown = "ACLUnknown"
)

// pathOf tells how a packet goes; nil if no interface has part in it.
func pathOf(p passage) *analysis.Path {
	if p.now == nil {
		return nil
	}
	out := &analysis.Path{Way: string(p.now.Way), FromNetwork: p.src.Network(), ToNetwork: p.dst.Network()}
	if p.now.Way == trace.WayNone {
		out.Remarks = append(out.Remarks, RemarkNotPeered)
	}
	switch seen := p.now.SeenSource; {
	case p.src.Addr.IsValid() && !seen.IsValid():
		out.Remarks = append(out.Remarks, RemarkSourceUnknown)
	case seen != p.src.Addr:
		out.SeenSource = seen.String()
		out.Remarks = append(out.Remarks, RemarkSourceTranslated)
	}
	switch {
	case p.dst.Public.IsValid() && p.now.Way != trace.WayItself:
		out.SentTo = p.dst.Public.String()
		out.Remarks = append(out.Remarks, RemarkSentToPublic)
	case p.src.Interface == nil && trace.Global(p.src.Addr) && p.dst.Interface != nil && !trace.Global(p.dst.Addr):
		out.Remarks = append(out.Remarks, RemarkNoPublicAddress)
	}
	for _, c := range p.crossings {
		e := entryOf(c)
		if e.Name != "" {
			out.Hops = append(out.Hops, e)
		}
		switch {
		case c.Unsure && out.DoubtedBy == nil:
			out.DoubtedBy = &e
		case !c.Unsure && !c.Allowed:
			out.StoppedBy = &e
		}
	}
	switch {
	case out.StoppedBy != nil:
		out.DoubtedBy = nil
		out.Remarks = append(out.Remarks, RemarkACLDenies)
	case out.DoubtedBy != nil:
		out.Remarks = append(out.Remarks, RemarkACLUnknown)
	}
	return out
}

func entryOf(c trace.Crossing) analysis.ACLEntry {
	out := analysis.ACLEntry{ACL: c.ACL.ID, Subnet: c.Subnet, Egress: c.Egress, Answer: c.Answer, Allowed: c.Allowed}
	if c.Entry != nil {
		out.Entry, out.Name = int32(c.Entry.Number), c.Entry.Name
	}
	return out
}

// verdictOn is what the sender sees of a verdict about a packet that goes this way: nothing comes
// back where there is no way, or a network ACL stops it.
func verdictOn(p *analysis.Path, v string) string {
	if p != nil && p.StoppedBy != nil {
		return outcomeDrop
	}
	if p != nil && p.Way == string(trace.WayNone) && v != outcomeDrop && v != outcomeReject {
		return NoRoute
	}
	if p != nil && p.DoubtedBy != nil && v != outcomeDrop && v != outcomeReject {
		return outcomeUnknown
	}
	return v
}
