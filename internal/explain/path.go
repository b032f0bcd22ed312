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
	StoppedBy *ACLStop `json:"stoppedBy,omitempty"`
	Remarks   []Remark `json:"remarks,omitempty"`
}

// ACLStop is an entry of a network ACL that denies.
type ACLStop struct {
	ACL    string `json:"acl"`
	Subnet string `json:"subnet"`
	// Entry is its number; 0 for the end of the ACL, which denies what no entry allows.
	Entry  int  `json:"entry"`
	Egress bool `json:"egress"`
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
	if s := p.stop; s != nil {
		out.StoppedBy = &ACLStop{ACL: s.ACL, Subnet: s.Subnet, Entry: s.Entry, Egress: s.Egress, Answer: s.Answer}
		out.Remarks = append(out.Remarks, RemarkACLDenies)
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
	return v
}
