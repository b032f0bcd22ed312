package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// DefaultCaptureSeconds is the timeout of a PacketCapture that names none.
const DefaultCaptureSeconds = 60

// CaptureDirection says which packets are captured.
// +kubebuilder:validation:Enum=SourceToDestination;DestinationToSource;Both
type CaptureDirection string

// The directions.
const (
	CaptureSourceToDestination CaptureDirection = "SourceToDestination"
	CaptureDestinationToSource CaptureDirection = "DestinationToSource"
	CaptureBoth                CaptureDirection = "Both"
)

// CapturePoint says at which Pod packets are captured.
// +kubebuilder:validation:Enum=Source;Destination
type CapturePoint string

// The points.
const (
	CaptureAtSource      CapturePoint = "Source"
	CaptureAtDestination CapturePoint = "Destination"
)

// The conditions of a PacketCapture.
const (
	PacketCaptureStarted  = "PacketCaptureStarted"
	PacketCaptureComplete = "PacketCaptureComplete"
)

// CapturePod names a Pod.
type CapturePod struct {
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// Namespace of the Pod; empty means default.
	// +kubebuilder:validation:MaxLength=63
	// +optional
	Namespace string `json:"namespace,omitempty"`
}

// CaptureEnd is one end of the traffic.
// +kubebuilder:validation:XValidation:rule="!(has(self.pod) && has(self.ip))",message="give pod or ip, and not both"
type CaptureEnd struct {
	// +optional
	Pod *CapturePod `json:"pod,omitempty"`
	// +kubebuilder:validation:MaxLength=45
	// +kubebuilder:validation:XValidation:rule="isIP(self)",message="want an IPv4 or IPv6 address"
	// +optional
	IP *string `json:"ip,omitempty"`
}

// CaptureFirstN captures the first packets.
type CaptureFirstN struct {
	// Number of packets.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10000
	Number int32 `json:"number"`
}

// CaptureConfig says how many packets are captured.
type CaptureConfig struct {
	FirstN CaptureFirstN `json:"firstN"`
}

// CapturePorts are ports of TCP or UDP.
type CapturePorts struct {
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	// +optional
	SrcPort *int32 `json:"srcPort,omitempty"`
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	// +optional
	DstPort *int32 `json:"dstPort,omitempty"`
}

// CaptureTCP chooses packets of TCP.
// +kubebuilder:validation:XValidation:rule="!has(self.flags)",message="flags of TCP are not looked at: leave them out, and choose in the file"
type CaptureTCP struct {
	CapturePorts `json:",inline"`
	// Flags are refused.
	// +kubebuilder:validation:MaxItems=8
	// +listType=atomic
	// +optional
	Flags []CaptureFlags `json:"flags,omitempty"`
}

// CaptureFlags are flags of TCP.
type CaptureFlags struct {
	// +optional
	Value int32 `json:"value,omitempty"`
	// +optional
	Mask *int32 `json:"mask,omitempty"`
}

// CaptureTransport is the header of the one protocol that is given.
// +kubebuilder:validation:XValidation:rule="!(has(self.tcp) && has(self.udp))",message="transportHeader: give tcp or udp, and not both"
type CaptureTransport struct {
	// +optional
	UDP *CapturePorts `json:"udp,omitempty"`
	// +optional
	TCP *CaptureTCP `json:"tcp,omitempty"`
}

// CapturePacket chooses packets.
// +kubebuilder:validation:XValidation:rule="!has(self.protocol) || (type(self.protocol) == int ? self.protocol >= 0 && self.protocol <= 255 : self.protocol in ['TCP', 'UDP', 'ICMP', 'ICMPv6'])",message="protocol: want TCP, UDP, ICMP, ICMPv6, or a number up to 255"
type CapturePacket struct {
	// IPFamily; IPv4 if it is absent.
	// +kubebuilder:validation:Enum=IPv4;IPv6
	// +optional
	IPFamily string `json:"ipFamily,omitempty"`
	// +kubebuilder:validation:XIntOrString
	// +optional
	Protocol *intstr.IntOrString `json:"protocol,omitempty"`
	// +optional
	TransportHeader CaptureTransport `json:"transportHeader,omitempty"`
}

// CaptureFileServer is where Antrea would upload the file to.
type CaptureFileServer struct {
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	URL string `json:"url,omitempty"`
	// +kubebuilder:validation:MaxLength=4096
	// +optional
	HostPublicKey string `json:"hostPublicKey,omitempty"`
}

// PacketCaptureSpec is what is to be captured.
// +kubebuilder:validation:XValidation:rule="has(self.source.pod) || has(self.destination.pod)",message="want a Pod as source or destination"
// +kubebuilder:validation:XValidation:rule="!has(self.capturePoint) || (self.capturePoint == 'Source' ? has(self.source.pod) : has(self.destination.pod))",message="capturePoint: want the end that is a Pod"
// +kubebuilder:validation:XValidation:rule="!has(self.fileServer)",message="fileServer: agents upload nothing, because they read no Secrets; the file stays on the Node (status.filePath)"
type PacketCaptureSpec struct {
	// Timeout in seconds; 60 if it is absent.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=300
	// +optional
	Timeout       *int32        `json:"timeout,omitempty"`
	CaptureConfig CaptureConfig `json:"captureConfig"`
	// +optional
	Source CaptureEnd `json:"source,omitempty"`
	// +optional
	Destination CaptureEnd `json:"destination,omitempty"`
	// Direction; SourceToDestination if it is absent.
	// +optional
	Direction CaptureDirection `json:"direction,omitempty"`
	// CapturePoint; the source if that is a Pod and it is absent.
	// +optional
	CapturePoint CapturePoint `json:"capturePoint,omitempty"`
	// +optional
	Packet *CapturePacket `json:"packet,omitempty"`
	// FileServer is refused.
	// +optional
	FileServer *CaptureFileServer `json:"fileServer,omitempty"`
}

// PacketCaptureCondition is one aspect of how a PacketCapture stands.
type PacketCaptureCondition struct {
	// +kubebuilder:validation:MaxLength=64
	Type string `json:"type"`
	// +kubebuilder:validation:Enum="True";"False";Unknown
	Status             metav1.ConditionStatus `json:"status"`
	LastTransitionTime metav1.Time            `json:"lastTransitionTime"`
	// +kubebuilder:validation:MaxLength=64
	// +optional
	Reason string `json:"reason"`
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	Message string `json:"message"`
}

// CaptureAssigned is what the controller has made of the spec. The agent of the Node follows it.
type CaptureAssigned struct {
	// Node captures.
	// +kubebuilder:validation:MaxLength=253
	Node string `json:"node"`
	// Since is when the controller assigned it.
	Since metav1.Time `json:"since"`
	// SourceIP and DestinationIP are empty where any is meant.
	// +kubebuilder:validation:MaxLength=45
	// +optional
	SourceIP string `json:"sourceIP,omitempty"`
	// +kubebuilder:validation:MaxLength=45
	// +optional
	DestinationIP string `json:"destinationIP,omitempty"`
	// AtDestination tells that the Pod is the destination.
	// +optional
	AtDestination bool `json:"atDestination,omitempty"`
}

// PacketCaptureStatus is how a PacketCapture stands.
type PacketCaptureStatus struct {
	// +optional
	NumberCaptured int32 `json:"numberCaptured"`
	// FilePath is where the file is, NODE:PATH.
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	FilePath string `json:"filePath"`
	// +kubebuilder:validation:MaxItems=8
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []PacketCaptureCondition `json:"conditions"`
	// Assigned is no part of Antrea's kind.
	// +optional
	Assigned *CaptureAssigned `json:"assigned,omitempty"`
}

// PacketCapture captures packets of a Pod into a file on its Node.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=packetcaptures,shortName=pcap,scope=Cluster
// +kubebuilder:validation:XValidation:rule="self.spec == oldSelf.spec",message="spec: make a new PacketCapture for something else"
// +kubebuilder:printcolumn:name="Captured-Packets",type=integer,JSONPath=`.status.numberCaptured`
// +kubebuilder:printcolumn:name="Started",type=string,JSONPath=`.status.conditions[?(@.type=="PacketCaptureStarted")].status`
// +kubebuilder:printcolumn:name="Complete",type=string,JSONPath=`.status.conditions[?(@.type=="PacketCaptureComplete")].status`
// +kubebuilder:printcolumn:name="File",type=string,priority=10,JSONPath=`.status.filePath`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type PacketCapture struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec PacketCaptureSpec `json:"spec"`
	// +optional
	Status PacketCaptureStatus `json:"status,omitempty"`
}

// Condition is the condition of a type; nil if there is none.
func (s *PacketCaptureStatus) Condition(of string) *PacketCaptureCondition {
	for i := range s.Conditions {
		if s.Conditions[i].Type == of {
			return &s.Conditions[i]
		}
	}
	return nil
}

// Set sets a condition.
func (s *PacketCaptureStatus) Set(of string, status metav1.ConditionStatus, reason, message string, now metav1.Time) {
	c := s.Condition(of)
	if c == nil {
		s.Conditions = append(s.Conditions, PacketCaptureCondition{Type: of, LastTransitionTime: now})
		c = &s.Conditions[len(s.Conditions)-1]
	}
	if c.Status != status {
		c.LastTransitionTime = now
	}
	c.Status, c.Reason, c.Message = status, reason, message
}

// Over reports whether nothing more is captured.
func (s *PacketCaptureStatus) Over() bool {
	started := s.Condition(PacketCaptureStarted)
	return s.Condition(PacketCaptureComplete) != nil || started != nil && started.Status == metav1.ConditionFalse
}

// PacketCaptureList is a list of PacketCapture.
// +kubebuilder:object:root=true
type PacketCaptureList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []PacketCapture `json:"items"`
}
