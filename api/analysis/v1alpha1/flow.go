package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// FlowReview asks what happens to the first packet of a connection, and why.
// +kubebuilder:object:root=true
type FlowReview struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   FlowReviewSpec   `json:"spec"`
	Status FlowReviewStatus `json:"status,omitempty"`
}

// FlowReviewSpec is the question. Its texts are as people write them: see "nephele explain --help".
type FlowReviewSpec struct {
	// From and To are NAMESPACE/NAME of a Pod, an ExternalEntity or a virtual machine, the same
	// after pod/, ee/ or vm/, node/NAME, or an IP address; To also svc/NAMESPACE/NAME. In the hub
	// of a set both may have the name of a cluster and a colon before it, as in east:shop/web: then
	// each cluster is asked for its half.
	From string `json:"from"`
	To   string `json:"to"`
	// Protocol is TCP (the default), UDP, SCTP, ICMP, ICMPv6 or IGMP.
	Protocol string `json:"protocol,omitempty"`
	// Port is the number of the destination port, or the name of a port of the destination.
	Port string `json:"port,omitempty"`
	// SourcePort is 0 for one that no rule names.
	SourcePort int32 `json:"sourcePort,omitempty"`
	// ICMPType is absent for that of an echo request, which depends on the family.
	ICMPType *int32 `json:"icmpType,omitempty"`
	ICMPCode int32  `json:"icmpCode,omitempty"`
	IGMPType int32  `json:"igmpType,omitempty"`
	// IGMPGroup is the group that the message is about, if it is not sent to that.
	IGMPGroup string `json:"igmpGroup,omitempty"`
}

// FlowReviewStatus is the answer, and what it was made from.
type FlowReviewStatus struct {
	Seen       `json:",inline"`
	FlowAnswer `json:",inline"`
}

// FlowAnswer is what "nephele explain -o json" prints.
type FlowAnswer struct {
	From End `json:"from"`
	To   End `json:"to"`
	// Protocol, and what it has of ports or types. ICMPType is absent if it is that of an echo
	// request in both families.
	Protocol  string `json:"protocol"`
	Port      int32  `json:"port,omitempty"`
	ICMPType  *int32 `json:"icmpType,omitempty"`
	ICMPCode  *int32 `json:"icmpCode,omitempty"`
	IGMPType  *int32 `json:"igmpType,omitempty"`
	IGMPGroup string `json:"igmpGroup,omitempty"`
	// Service is the Service of the destination address, with the endpoints that it may choose.
	Service *Service `json:"service,omitempty"`
	// Verdict is what the sender sees, today where that is known: Allow, Drop, Reject, NoRoute,
	// Native or Unknown; Mixed if it depends on which addresses the ends use.
	Verdict string `json:"verdict"`
	// Wanted is what the sender would see if everything were enforced as it stands.
	Wanted string `json:"wanted"`
	// Path is the way that the packet takes through clouds, where it is the same for all addresses.
	Path *Path `json:"path,omitempty"`
	// Reason says why the verdict is Unknown, if no single decision does.
	Reason string   `json:"reason,omitempty"`
	Notes  []string `json:"notes,omitempty"`
	// Egress, AtService and Ingress are absent if there are Flows, AtService also if no rule
	// applies to the Service.
	Egress    *Decision `json:"egress,omitempty"`
	AtService *Decision `json:"atService,omitempty"`
	Ingress   *Decision `json:"ingress,omitempty"`
	// Points are the places on the way where policies are enforced, or where something is lost,
	// absent if there are Flows.
	Points []Point `json:"points,omitempty"`
	// Balanced is how the load balancer that the destination belongs to hands the packet on, absent
	// if it does not, if that is not known, or if there are Flows.
	Balanced *Balanced `json:"balanced,omitempty"`
	// Leaving is how it leaves the cluster, absent if no Egress applies to it, if the caller may
	// not see Egresses, or if there are Flows.
	Leaving *Leaving `json:"leaving,omitempty"`
	// Flows are the answers for single pairs of addresses, and Pods behind a Service, if these are
	// not all treated alike.
	Flows []Flow `json:"flows,omitempty"`
	// Halves are what the clusters of the two ends say, the source's first, if the question is
	// about clusters of the set.
	Halves []FlowHalf `json:"halves,omitempty"`
}

// FlowHalf is what the cluster of one end says of a flow.
type FlowHalf struct {
	Cluster string `json:"cluster"`
	// Side is Egress or Ingress. The other end is known to the cluster by its address alone: From
	// and To are the ends as it was asked about them.
	Side string `json:"side"`
	From End    `json:"from"`
	To   End    `json:"to"`
	// Decision is absent if there is no answer; Why says why.
	Decision *Decision `json:"decision,omitempty"`
	Notes    []string  `json:"notes,omitempty"`
	Why      string    `json:"why,omitempty"`
}
