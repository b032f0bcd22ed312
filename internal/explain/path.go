package explain

import (
	"github.com/nephele-io/nephele/internal/cloud/trace"
	"github.com/nephele-io/nephele/internal/policy"
)

// Path is the way of a packet through clouds that were read.
type Path struct {
	Way trace.Way `json:"way"`
	// FromNetwork and ToNetwork are the networks of the two ends, as far as they are in one.
	FromNetwork string `json:"fromNetwork,omitempty"`
	ToNetwork   string `json:"toNetwork,omitempty"`
	// SeenSource is the address that the destination sees, if it is not the one that the packet has
	// at its source.
	SeenSource string `json:"seenSource,omitempty"`
	// SentTo is the address that the source sends to, if a gateway translates it.
	SentTo string `json:"sentTo,omitempty"`
	// StoppedBy is the network ACL that does not let the packet or its answer through.
	StoppedBy *ACLEntry `json:"stoppedBy,omitempty"`
	// DoubtedBy is the one that may stop it: what its entry is about is not known.
	DoubtedBy *ACLEntry `json:"doubtedBy,omitempty"`
	// Hops are the filters of subnets on the way whose entries have names, in order, with the
	// entry that decides.
	Hops    []ACLEntry `json:"hops,omitempty"`
	Remarks []Remark   `json:"remarks,omitempty"`
}

// ACLEntry is an entry of a network ACL, or of the network security group of a subnet, that
// decides.
type ACLEntry struct {
	ACL    string `json:"acl"`
	Subnet string `json:"subnet"`
	// Entry is its number; 0 for the end of the ACL, which denies what no entry allows.
	Entry int `json:"entry"`
	// Name is what its owner calls the entry; empty where entries have numbers only.
	Name    string `json:"name,omitempty"`
	Egress  bool   `json:"egress"`
	Allowed bool   `json:"allowed,omitempty"`
	// Answer tells that it stops what comes back.
	Answer bool `json:"answer,omitempty"`
}

// Remark is what is to be known of a way.
type Remark string

// The remarks.
const (
	// RemarkNotPeered: no active peering connects the networks. Transit gateways and the like are
	// not read.
	RemarkNotPeered Remark = "NotPeered"
	// RemarkSourceTranslated: the destination sees Path.SeenSource.
	RemarkSourceTranslated Remark = "SourceTranslated"
	// RemarkSourceUnknown: the source has no public address; a NAT gateway's that is not known is
	// seen, if there is any way out.
	RemarkSourceUnknown Remark = "SourceUnknown"
	// RemarkSentToPublic: the packet goes to Path.SentTo, through gateways, and rules that name
	// groups do not match it.
	RemarkSentToPublic Remark = "SentToPublic"
	// RemarkNoPublicAddress: the source is in the Internet and the destination has no address
	// there.
	RemarkNoPublicAddress Remark = "NoPublicAddress"
	// RemarkACLDenies: the network ACL Path.StoppedBy does not let it through, whatever policies
	// and groups say.
	RemarkACLDenies Remark = "ACLDenies"
	// RemarkACLUnknown: it depends on what is not known whether Path.DoubtedBy lets it through.
	RemarkACLUnknown Remark = "ACLUnknown"
)

// pathOf tells how a packet goes; nil if no interface has part in it.
func pathOf(p passage) *Path {
	if p.now == nil {
		return nil
	}
	out := &Path{Way: p.now.Way, FromNetwork: p.src.Network(), ToNetwork: p.dst.Network()}
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

func entryOf(c trace.Crossing) ACLEntry {
	out := ACLEntry{ACL: c.ACL.ID, Subnet: c.Subnet, Egress: c.Egress, Answer: c.Answer, Allowed: c.Allowed}
	if c.Entry != nil {
		out.Entry, out.Name = c.Entry.Number, c.Entry.Name
	}
	return out
}

// verdict is what the sender sees of a verdict: nothing comes back where there is no way, or a
// network ACL stops it.
func (p *Path) verdict(v string) string {
	if p != nil && p.StoppedBy != nil {
		return string(policy.OutcomeDrop)
	}
	if p != nil && p.Way == trace.WayNone && v != string(policy.OutcomeDrop) && v != string(policy.OutcomeReject) {
		return NoRoute
	}
	if p != nil && p.DoubtedBy != nil && v != string(policy.OutcomeDrop) && v != string(policy.OutcomeReject) {
		return string(policy.OutcomeUnknown)
	}
	return v
}
