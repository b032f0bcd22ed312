package v1beta1

import (
	"net/netip"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// EgressConditionType names a condition of an Egress.
type EgressConditionType string

// IPAllocated is True once the Egress has addresses, IPAssigned once Nodes have them.
const (
	IPAllocated EgressConditionType = "IPAllocated"
	IPAssigned  EgressConditionType = "IPAssigned"
)

// The reasons of conditions.
const (
	ReasonAllocated       = "Allocated"
	ReasonAllocationError = "AllocationError"
	ReasonAssigned        = "Assigned"
	ReasonAssignmentError = "AssignmentError"
	ReasonNoAvailableNode = "NoAvailableNode"
)

// EgressAppliedTo selects Pods by label.
type EgressAppliedTo struct {
	// PodSelector selects Pods; alone, in all namespaces.
	// +optional
	PodSelector *metav1.LabelSelector `json:"podSelector,omitempty"`
	// NamespaceSelector selects the namespaces of the Pods; alone, all Pods in them.
	// +optional
	NamespaceSelector *metav1.LabelSelector `json:"namespaceSelector,omitempty"`
}

// EgressSelector tells which Pods an Egress applies to, by labels.
// +kubebuilder:object:generate=false
type EgressSelector struct {
	pods, namespaces labels.Selector
}

// Selects reports whether a Pod with these labels, in a namespace with those, is selected.
func (s EgressSelector) Selects(pod, namespace map[string]string) bool {
	return s.pods.Matches(labels.Set(pod)) && s.namespaces.Matches(labels.Set(namespace))
}

// Selector reads the selectors; false if there are none, or one is wrong: then no Pod is selected.
func (a *EgressAppliedTo) Selector() (EgressSelector, bool) {
	if a.PodSelector == nil && a.NamespaceSelector == nil {
		return EgressSelector{}, false
	}
	s := EgressSelector{labels.Everything(), labels.Everything()}
	for _, x := range []struct {
		from *metav1.LabelSelector
		to   *labels.Selector
	}{{a.PodSelector, &s.pods}, {a.NamespaceSelector, &s.namespaces}} {
		if x.from == nil {
			continue
		}
		made, err := metav1.LabelSelectorAsSelector(x.from)
		if err != nil {
			return EgressSelector{}, false
		}
		*x.to = made
	}
	return s, true
}

// EgressSpec says which Pods leave the cluster with which address.
// +kubebuilder:validation:XValidation:rule="!(has(self.egressIP) && self.egressIP.size() > 0 && has(self.egressIPs) && self.egressIPs.size() > 0)",message="give egressIP or egressIPs, and not both"
// +kubebuilder:validation:XValidation:rule="!(has(self.externalIPPool) && self.externalIPPool.size() > 0 && has(self.externalIPPools) && self.externalIPPools.size() > 0)",message="give externalIPPool or externalIPPools, and not both"
// +kubebuilder:validation:XValidation:rule="(has(self.egressIP) && self.egressIP.size() > 0) || (has(self.egressIPs) && self.egressIPs.size() > 0) || (has(self.externalIPPool) && self.externalIPPool.size() > 0) || (has(self.externalIPPools) && self.externalIPPools.size() > 0)",message="give egressIP, or an externalIPPool to take an address from"
// +kubebuilder:validation:XValidation:rule="!(has(self.egressIPs) && has(self.externalIPPools) && self.externalIPPools.size() > 0) || self.egressIPs.size() <= self.externalIPPools.size()",message="egressIPs: each needs the pool at the same place of externalIPPools"
// +kubebuilder:validation:XValidation:rule="has(self.appliedTo.podSelector) || has(self.appliedTo.namespaceSelector)",message="appliedTo: give podSelector or namespaceSelector"
type EgressSpec struct {
	// AppliedTo selects the Pods.
	AppliedTo EgressAppliedTo `json:"appliedTo"`
	// EgressIP is the address. Without an externalIPPool a Node must have it already; with one it
	// is of the pool, and left empty it is chosen there.
	// +kubebuilder:validation:MaxLength=45
	// +kubebuilder:validation:XValidation:rule="self.size() == 0 || isIP(self)",message="want an IPv4 or IPv6 address"
	// +optional
	EgressIP string `json:"egressIP,omitempty"`
	// EgressIPs are an address of each family.
	// +kubebuilder:validation:MaxItems=2
	// +kubebuilder:validation:items:MaxLength=45
	// +kubebuilder:validation:items:XValidation:rule="isIP(self)",message="want an IPv4 or IPv6 address"
	// +listType=atomic
	// +optional
	EgressIPs []string `json:"egressIPs,omitempty"`
	// ExternalIPPool is where the address is from, one of whose Nodes has it.
	// +kubebuilder:validation:MaxLength=253
	// +optional
	ExternalIPPool string `json:"externalIPPool,omitempty"`
	// ExternalIPPools are the pools of EgressIPs, in the same order.
	// +kubebuilder:validation:MaxItems=2
	// +kubebuilder:validation:items:MaxLength=253
	// +listType=atomic
	// +optional
	ExternalIPPools []string `json:"externalIPPools,omitempty"`
}

// EgressAddress is one address of an Egress, and the pool that it is from.
// +kubebuilder:object:generate=false
type EgressAddress struct {
	// Address is not valid before one is chosen.
	Address netip.Addr
	// Pool is empty where a Node has the address by itself.
	Pool string
}

// Addresses are all addresses of the Egress, in order. A text that is no address counts as none.
func (s *EgressSpec) Addresses() []EgressAddress {
	texts, pools := s.EgressIPs, s.ExternalIPPools
	if s.EgressIP != "" {
		texts = []string{s.EgressIP}
	}
	if s.ExternalIPPool != "" {
		pools = []string{s.ExternalIPPool}
	}
	out := make([]EgressAddress, max(len(texts), len(pools)))
	for i, text := range texts {
		if a, err := netip.ParseAddr(text); err == nil && a.Zone() == "" {
			out[i].Address = a.Unmap()
		}
	}
	for i, name := range pools {
		out[i].Pool = name
	}
	return out
}

// Families are the addresses of an Egress by their family (true is IPv6), and of which families it
// drops what has none: those that its pools without an address have. A pool that is not there has
// both. pool finds one by its name; nil if there is none.
func (s *EgressSpec) Families(pool func(name string) *ExternalIPPool) (from map[bool]netip.Addr, drops map[bool]bool) {
	from, drops = map[bool]netip.Addr{}, map[bool]bool{}
	for _, x := range s.Addresses() {
		if a := x.Address; a.IsValid() {
			if _, there := from[a.Is6()]; !there {
				from[a.Is6()] = a
			}
			continue
		}
		p := pool(x.Pool)
		if p == nil {
			drops[false], drops[true] = true, true
			continue
		}
		for i := range p.Spec.IPRanges {
			r := &p.Spec.IPRanges[i]
			if c, err := netip.ParsePrefix(r.CIDR); err == nil {
				drops[c.Addr().Is6()] = true
			} else if a, err := netip.ParseAddr(r.Start); err == nil {
				drops[a.Is6()] = true
			}
		}
	}
	return from, drops
}

// EgressCondition is one condition of an Egress.
type EgressCondition struct {
	// Type of the condition.
	Type EgressConditionType `json:"type"`
	// Status is True, False or Unknown.
	Status metav1.ConditionStatus `json:"status"`
	// LastTransitionTime is when Status last changed.
	// +optional
	LastTransitionTime metav1.Time `json:"lastTransitionTime,omitempty"`
	// Reason is one word for machines.
	// +optional
	Reason string `json:"reason,omitempty"`
	// Message is the reason in words.
	// +optional
	Message string `json:"message,omitempty"`
}

// EgressStatus says which Node has the address.
type EgressStatus struct {
	// EgressNode is the Node that has EgressIP; empty if none has it.
	// +optional
	EgressNode string `json:"egressNode,omitempty"`
	// EgressIP is the address that Pods leave with.
	// +optional
	EgressIP string `json:"egressIP,omitempty"`
	// Conditions: IPAllocated, IPAssigned.
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []EgressCondition `json:"conditions,omitempty"`
}

// Has reports whether a condition is True.
func (s *EgressStatus) Has(t EgressConditionType) bool {
	return slices.ContainsFunc(s.Conditions, func(c EgressCondition) bool { return c.Type == t && c.Status == metav1.ConditionTrue })
}

// Egress lets Pods leave the cluster with an address of their own.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=eg,scope=Cluster
// +kubebuilder:printcolumn:name="EgressIP",type=string,JSONPath=`.spec.egressIP`,description="Address that Pods leave with"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Node",type=string,JSONPath=`.status.egressNode`,description="Node that has the address"
type Egress struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   EgressSpec   `json:"spec"`
	Status EgressStatus `json:"status,omitempty"`
}

// EgressList is a list of Egress.
// +kubebuilder:object:root=true
type EgressList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []Egress `json:"items"`
}

// IPRange is a range of addresses: cidr, or start to end, both included.
// +kubebuilder:validation:XValidation:rule="(has(self.cidr) && self.cidr.size() > 0) != (has(self.start) && self.start.size() > 0)",message="give cidr, or start and end"
// +kubebuilder:validation:XValidation:rule="(has(self.start) && self.start.size() > 0) == (has(self.end) && self.end.size() > 0)",message="give start and end together"
type IPRange struct {
	// CIDR is the range. Its first address, and of IPv4 its last one, are not given out.
	// +kubebuilder:validation:MaxLength=49
	// +kubebuilder:validation:XValidation:rule="self.size() == 0 || isCIDR(self)",message="want ADDRESS/BITS"
	// +optional
	CIDR string `json:"cidr,omitempty"`
	// Start is the first address.
	// +kubebuilder:validation:MaxLength=45
	// +kubebuilder:validation:XValidation:rule="self.size() == 0 || isIP(self)",message="want an IPv4 or IPv6 address"
	// +optional
	Start string `json:"start,omitempty"`
	// End is the last address.
	// +kubebuilder:validation:MaxLength=45
	// +kubebuilder:validation:XValidation:rule="self.size() == 0 || isIP(self)",message="want an IPv4 or IPv6 address"
	// +optional
	End string `json:"end,omitempty"`
}

// SubnetInfo describes the subnet of a pool.
type SubnetInfo struct {
	// Gateway of the subnet.
	// +kubebuilder:validation:MaxLength=45
	Gateway string `json:"gateway"`
	// PrefixLength of the subnet.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=127
	PrefixLength int32 `json:"prefixLength"`
	// VLAN is the VLAN of the subnet. A pool with one is not used here.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=4094
	// +optional
	VLAN int32 `json:"vlan,omitempty"`
}

// ExternalIPPoolSpec says which addresses are given out, and which Nodes may have them.
type ExternalIPPoolSpec struct {
	// IPRanges are the addresses.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +listType=atomic
	IPRanges []IPRange `json:"ipRanges"`
	// SubnetInfo describes their subnet. Nodes need no gateway of it: they send as ever.
	// +optional
	SubnetInfo *SubnetInfo `json:"subnetInfo,omitempty"`
	// NodeSelector selects the Nodes that may have them; empty selects all.
	NodeSelector metav1.LabelSelector `json:"nodeSelector"`
}

// ExternalIPPoolUsage counts addresses.
type ExternalIPPoolUsage struct {
	// Total is how many there are.
	Total int64 `json:"total"`
	// Used is how many Egresses have.
	Used int64 `json:"used"`
}

// ExternalIPPoolStatus says how many addresses are in use.
type ExternalIPPoolStatus struct {
	// Usage counts them.
	// +optional
	Usage ExternalIPPoolUsage `json:"usage,omitempty"`
}

// ExternalIPPool has addresses for Egresses.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=eip,scope=Cluster
// +kubebuilder:printcolumn:name="Total",type=integer,JSONPath=`.status.usage.total`,description="Addresses"
// +kubebuilder:printcolumn:name="Used",type=integer,JSONPath=`.status.usage.used`,description="Addresses in use"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type ExternalIPPool struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   ExternalIPPoolSpec   `json:"spec"`
	Status ExternalIPPoolStatus `json:"status,omitempty"`
}

// ExternalIPPoolList is a list of ExternalIPPool.
// +kubebuilder:object:root=true
type ExternalIPPoolList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []ExternalIPPool `json:"items"`
}
