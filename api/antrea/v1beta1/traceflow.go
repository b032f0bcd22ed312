package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TraceflowPhase is how far a Traceflow has come; empty if the controller has not begun it.
// +kubebuilder:validation:Enum="";Running;Succeeded;Failed
type TraceflowPhase string

// The phases.
const (
	TraceflowRunning   TraceflowPhase = "Running"
	TraceflowSucceeded TraceflowPhase = "Succeeded"
	TraceflowFailed    TraceflowPhase = "Failed"
)

// TraceflowComponent is what part of the network has done something with the packet.
// +kubebuilder:validation:MaxLength=64
type TraceflowComponent string

// The components.
const (
	ComponentSpoofGuard    TraceflowComponent = "SpoofGuard"
	ComponentLB            TraceflowComponent = "LB"
	ComponentRouting       TraceflowComponent = "Routing"
	ComponentNetworkPolicy TraceflowComponent = "NetworkPolicy"
	ComponentForwarding    TraceflowComponent = "Forwarding"
	ComponentEgress        TraceflowComponent = "Egress"
)

// TraceflowAction is what became of the packet there.
// +kubebuilder:validation:MaxLength=64
type TraceflowAction string

// The actions.
const (
	ActionDelivered             TraceflowAction = "Delivered"
	ActionReceived              TraceflowAction = "Received"
	ActionForwarded             TraceflowAction = "Forwarded"
	ActionDropped               TraceflowAction = "Dropped"
	ActionRejected              TraceflowAction = "Rejected"
	ActionForwardedOutOfNetwork TraceflowAction = "ForwardedOutOfNetwork"
	ActionMarkedForSNAT         TraceflowAction = "MarkedForSNAT"
)

// DefaultTraceflowSeconds is the timeout of a Traceflow that names none.
const DefaultTraceflowSeconds = 20

// TraceflowNotTraced begins the ComponentInfo of an agent that could not trace a packet. It is no
// word of Antrea's.
const TraceflowNotTraced = "not traced: "

// TraceflowSource is where the packet comes from.
// +kubebuilder:validation:XValidation:rule="!(has(self.pod) && self.pod.size() > 0 && has(self.ip) && self.ip.size() > 0)",message="source: give pod or ip, and not both"
// +kubebuilder:validation:XValidation:rule="!has(self.pod) || self.pod.size() == 0 || (has(self.__namespace__) && self.__namespace__.size() > 0)",message="source: a pod needs its namespace"
type TraceflowSource struct {
	// Namespace of the Pod.
	// +kubebuilder:validation:MaxLength=63
	// +optional
	Namespace string `json:"namespace,omitempty"`
	// Pod that sends.
	// +kubebuilder:validation:MaxLength=253
	// +optional
	Pod string `json:"pod,omitempty"`
	// IP that sends; only of live traffic.
	// +kubebuilder:validation:MaxLength=45
	// +kubebuilder:validation:XValidation:rule="self.size() == 0 || isIP(self)",message="want an IPv4 or IPv6 address"
	// +optional
	IP string `json:"ip,omitempty"`
}

// TraceflowDestination is where the packet goes.
// +kubebuilder:validation:XValidation:rule="[has(self.pod) && self.pod.size() > 0, has(self.service) && self.service.size() > 0, has(self.ip) && self.ip.size() > 0].filter(x, x).size() <= 1",message="destination: give one of pod, service and ip"
// +kubebuilder:validation:XValidation:rule="!(has(self.pod) && self.pod.size() > 0 || has(self.service) && self.service.size() > 0) || (has(self.__namespace__) && self.__namespace__.size() > 0)",message="destination: a pod and a service need their namespace"
type TraceflowDestination struct {
	// Namespace of the Pod or Service.
	// +kubebuilder:validation:MaxLength=63
	// +optional
	Namespace string `json:"namespace,omitempty"`
	// Pod that receives.
	// +kubebuilder:validation:MaxLength=253
	// +optional
	Pod string `json:"pod,omitempty"`
	// Service that is connected to.
	// +kubebuilder:validation:MaxLength=63
	// +optional
	Service string `json:"service,omitempty"`
	// IP that receives.
	// +kubebuilder:validation:MaxLength=45
	// +kubebuilder:validation:XValidation:rule="self.size() == 0 || isIP(self)",message="want an IPv4 or IPv6 address"
	// +optional
	IP string `json:"ip,omitempty"`
}

// IPHeader is what is known of a header of IPv4.
type IPHeader struct {
	// Protocol: 1 (ICMP, also if it is 0), 6 (TCP) or 17 (UDP).
	// +kubebuilder:validation:Enum=0;1;6;17
	// +optional
	Protocol int32 `json:"protocol,omitempty"`
	// TTL with which the packet is sent; 0 means 64.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=255
	// +optional
	TTL int32 `json:"ttl,omitempty"`
	// Flags of fragmentation.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=7
	// +optional
	Flags int32 `json:"flags,omitempty"`
}

// IPv6Header is what is known of a header of IPv6.
type IPv6Header struct {
	// NextHeader: 58 (ICMPv6, also if it is absent), 6 (TCP) or 17 (UDP).
	// +kubebuilder:validation:Enum=6;17;58
	// +optional
	NextHeader *int32 `json:"nextHeader,omitempty"`
	// HopLimit with which the packet is sent; 0 means 64.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=255
	// +optional
	HopLimit int32 `json:"hopLimit,omitempty"`
}

// ICMPEchoRequestHeader is that of a request for an echo.
type ICMPEchoRequestHeader struct {
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=65535
	// +optional
	ID int32 `json:"id,omitempty"`
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=65535
	// +optional
	Sequence int32 `json:"sequence,omitempty"`
}

// UDPHeader is that of UDP.
type UDPHeader struct {
	// SrcPort; 0 means any.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=65535
	// +optional
	SrcPort int32 `json:"srcPort,omitempty"`
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=65535
	// +optional
	DstPort int32 `json:"dstPort,omitempty"`
}

// TCPHeader is that of TCP.
type TCPHeader struct {
	// SrcPort; 0 means any.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=65535
	// +optional
	SrcPort int32 `json:"srcPort,omitempty"`
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=65535
	// +optional
	DstPort int32 `json:"dstPort,omitempty"`
	// Flags; a SYN if they are absent.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=255
	// +optional
	Flags *int32 `json:"flags,omitempty"`
}

// TransportHeader is the header of the one protocol that is given.
// +kubebuilder:validation:XValidation:rule="[has(self.icmp), has(self.udp), has(self.tcp)].filter(x, x).size() <= 1",message="transportHeader: give one of icmp, udp and tcp"
type TransportHeader struct {
	// +optional
	ICMP *ICMPEchoRequestHeader `json:"icmp,omitempty"`
	// +optional
	UDP *UDPHeader `json:"udp,omitempty"`
	// +optional
	TCP *TCPHeader `json:"tcp,omitempty"`
}

// TraceflowPacket is the packet that is sent, or what of live traffic is meant.
// +kubebuilder:validation:XValidation:rule="!(has(self.ipHeader) && has(self.ipv6Header))",message="packet: give ipHeader or ipv6Header, and not both"
type TraceflowPacket struct {
	// SrcIP is where a captured packet came from.
	// +kubebuilder:validation:MaxLength=45
	// +optional
	SrcIP string `json:"srcIP,omitempty"`
	// DstIP is where a captured packet was sent to.
	// +kubebuilder:validation:MaxLength=45
	// +optional
	DstIP string `json:"dstIP,omitempty"`
	// Length of the packet with its headers. It is not changed for what is sent.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=65535
	// +optional
	Length int32 `json:"length,omitempty"`
	// +optional
	IPHeader *IPHeader `json:"ipHeader,omitempty"`
	// +optional
	IPv6Header *IPv6Header `json:"ipv6Header,omitempty"`
	// +optional
	TransportHeader TransportHeader `json:"transportHeader,omitempty"`
}

// TraceflowSpec is what is to be traced.
// +kubebuilder:validation:XValidation:rule="has(self.liveTraffic) && self.liveTraffic || has(self.source) && has(self.source.pod) && self.source.pod.size() > 0",message="source.pod: a packet is sent from a Pod; only live traffic may come from elsewhere"
// +kubebuilder:validation:XValidation:rule="has(self.liveTraffic) && self.liveTraffic || !(has(self.droppedOnly) && self.droppedOnly)",message="droppedOnly: is for live traffic"
// +kubebuilder:validation:XValidation:rule="has(self.liveTraffic) && self.liveTraffic || has(self.destination) && (has(self.destination.pod) && self.destination.pod.size() > 0 || has(self.destination.service) && self.destination.service.size() > 0 || has(self.destination.ip) && self.destination.ip.size() > 0)",message="destination: want a pod, a service or an ip"
// +kubebuilder:validation:XValidation:rule="has(self.source) && has(self.source.pod) && self.source.pod.size() > 0 || has(self.destination) && has(self.destination.pod) && self.destination.pod.size() > 0",message="want a Pod as source or destination"
type TraceflowSpec struct {
	// +optional
	Source TraceflowSource `json:"source,omitempty"`
	// +optional
	Destination TraceflowDestination `json:"destination,omitempty"`
	// +optional
	Packet TraceflowPacket `json:"packet,omitempty"`
	// LiveTraffic traces the first packet that matches, instead of one that is sent.
	// +optional
	LiveTraffic bool `json:"liveTraffic,omitempty"`
	// DroppedOnly traces the first packet of live traffic that is dropped.
	// +optional
	DroppedOnly bool `json:"droppedOnly,omitempty"`
	// Timeout in seconds; 0 means 20.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=300
	// +optional
	Timeout int32 `json:"timeout,omitempty"`
}

// TraceflowObservation is one thing that was done with the packet.
type TraceflowObservation struct {
	// +optional
	Component TraceflowComponent `json:"component,omitempty"`
	// ComponentInfo says more of the component.
	// +kubebuilder:validation:MaxLength=256
	// +optional
	ComponentInfo string `json:"componentInfo,omitempty"`
	// +optional
	Action TraceflowAction `json:"action,omitempty"`
	// Pod that got the packet, NAMESPACE/NAME.
	// +kubebuilder:validation:MaxLength=320
	// +optional
	Pod string `json:"pod,omitempty"`
	// +kubebuilder:validation:MaxLength=64
	// +optional
	DstMAC string `json:"dstMAC,omitempty"`
	// NetworkPolicy that decided, TYPE:NAMESPACE/NAME.
	// +kubebuilder:validation:MaxLength=400
	// +optional
	NetworkPolicy string `json:"networkPolicy,omitempty"`
	// NetworkPolicyRule is its rule.
	// +kubebuilder:validation:MaxLength=256
	// +optional
	NetworkPolicyRule string `json:"networkPolicyRule,omitempty"`
	// +kubebuilder:validation:MaxLength=253
	// +optional
	Egress string `json:"egress,omitempty"`
	// TTL that the packet has.
	// +optional
	TTL int32 `json:"ttl,omitempty"`
	// +kubebuilder:validation:MaxLength=45
	// +optional
	TranslatedSrcIP string `json:"translatedSrcIP,omitempty"`
	// +kubebuilder:validation:MaxLength=45
	// +optional
	TranslatedDstIP string `json:"translatedDstIP,omitempty"`
	// TunnelDstIP is the Node that it is sent to.
	// +kubebuilder:validation:MaxLength=45
	// +optional
	TunnelDstIP string `json:"tunnelDstIP,omitempty"`
	// +kubebuilder:validation:MaxLength=45
	// +optional
	EgressIP string `json:"egressIP,omitempty"`
	// +kubebuilder:validation:MaxLength=253
	// +optional
	EgressNode string `json:"egressNode,omitempty"`
	// +kubebuilder:validation:MaxLength=45
	// +optional
	SrcPodIP string `json:"srcPodIP,omitempty"`
}

// TraceflowNodeResult is what one Node has seen.
type TraceflowNodeResult struct {
	// +kubebuilder:validation:MaxLength=253
	// +optional
	Node string `json:"node,omitempty"`
	// Role is sender or receiver.
	// +kubebuilder:validation:MaxLength=16
	// +optional
	Role string `json:"role,omitempty"`
	// Timestamp in seconds since 1970.
	// +optional
	Timestamp int64 `json:"timestamp,omitempty"`
	// +kubebuilder:validation:MaxItems=32
	// +listType=atomic
	// +optional
	Observations []TraceflowObservation `json:"observations,omitempty"`
}

// TraceflowTraced is what the controller has made of the spec. Agents follow it.
type TraceflowTraced struct {
	// Node sends the packet, or marks that of live traffic.
	// +kubebuilder:validation:MaxLength=253
	// +optional
	Node string `json:"node,omitempty"`
	// Receiver is the Node of the destination, where that is known.
	// +kubebuilder:validation:MaxLength=253
	// +optional
	Receiver string `json:"receiver,omitempty"`
	// SourceIP and DestinationIP are empty where any is meant.
	// +kubebuilder:validation:MaxLength=45
	// +optional
	SourceIP string `json:"sourceIP,omitempty"`
	// +kubebuilder:validation:MaxLength=45
	// +optional
	DestinationIP string `json:"destinationIP,omitempty"`
	// Protocol is that of IP; 0 where any is meant.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=255
	// +optional
	Protocol int32 `json:"protocol,omitempty"`
	// SourcePort and DestinationPort are 0 where any is meant.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=65535
	// +optional
	SourcePort int32 `json:"sourcePort,omitempty"`
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=65535
	// +optional
	DestinationPort int32 `json:"destinationPort,omitempty"`
}

// TraceflowStatus is what was found.
type TraceflowStatus struct {
	// +optional
	Phase TraceflowPhase `json:"phase,omitempty"`
	// Reason of a failure, or of a wait.
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	Reason string `json:"reason,omitempty"`
	// StartTime is when the controller began it.
	// +optional
	StartTime *metav1.Time `json:"startTime,omitempty"`
	// DataplaneTag is the DSCP by which Nodes know the packet.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=63
	// +optional
	DataplaneTag int8 `json:"dataplaneTag,omitempty"`
	// Traced is no part of Antrea's kind.
	// +optional
	Traced *TraceflowTraced `json:"traced,omitempty"`
	// Results of the Nodes that have seen the packet. An agent writes that of its own Node.
	// +kubebuilder:validation:MaxItems=8
	// +listType=atomic
	// +optional
	Results []TraceflowNodeResult `json:"results,omitempty"`
	// CapturedPacket is that of live traffic.
	// +optional
	CapturedPacket *TraceflowPacket `json:"capturedPacket,omitempty"`
}

// Traceflow traces one packet through the network of the Nodes.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=traceflows,shortName=tf,scope=Cluster
// +kubebuilder:validation:XValidation:rule="self.spec == oldSelf.spec",message="spec: a Traceflow is about one packet; make a new one"
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Source-Pod",type=string,priority=10,JSONPath=`.spec.source.pod`
// +kubebuilder:printcolumn:name="Destination-Pod",type=string,priority=10,JSONPath=`.spec.destination.pod`
// +kubebuilder:printcolumn:name="Destination-IP",type=string,priority=10,JSONPath=`.spec.destination.ip`
// +kubebuilder:printcolumn:name="Live-Traffic",type=boolean,priority=10,JSONPath=`.spec.liveTraffic`
// +kubebuilder:printcolumn:name="Dropped-Only",type=boolean,priority=10,JSONPath=`.spec.droppedOnly`
// +kubebuilder:printcolumn:name="Timeout",type=integer,priority=10,JSONPath=`.spec.timeout`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type Traceflow struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec TraceflowSpec `json:"spec"`
	// +optional
	Status TraceflowStatus `json:"status,omitempty"`
}

// TraceflowList is a list of Traceflow.
// +kubebuilder:object:root=true
type TraceflowList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []Traceflow `json:"items"`
}
