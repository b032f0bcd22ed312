package v1alpha2

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Protocol is a transport protocol.
// +kubebuilder:validation:Enum=TCP;UDP;SCTP
type Protocol string

// The transport protocols.
const (
	ProtocolTCP  Protocol = "TCP"
	ProtocolUDP  Protocol = "UDP"
	ProtocolSCTP Protocol = "SCTP"
)

// Endpoint is an address of an external entity.
type Endpoint struct {
	// IP address, IPv4 or IPv6.
	// +kubebuilder:validation:MaxLength=45
	// +kubebuilder:validation:XValidation:rule="isIP(self)",message="ip must be an IPv4 or IPv6 address, an IPv4 address without ::ffff: before it"
	// +optional
	IP string `json:"ip,omitempty"`
	// Name of the endpoint.
	// +kubebuilder:validation:MaxLength=253
	// +optional
	Name string `json:"name,omitempty"`
}

// NamedPort is a port that rules may refer to by name.
type NamedPort struct {
	// Protocol of the port.
	// +kubebuilder:default=TCP
	// +optional
	Protocol Protocol `json:"protocol,omitempty"`
	// Port number.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	// +optional
	Port int32 `json:"port,omitempty"`
	// Name that rules refer to.
	// +kubebuilder:validation:MaxLength=63
	// +optional
	Name string `json:"name,omitempty"`
}

// ExternalEntitySpec is the content of an ExternalEntity.
type ExternalEntitySpec struct {
	// Endpoints are all the addresses of the entity.
	// +kubebuilder:validation:MaxItems=256
	// +listType=atomic
	// +optional
	Endpoints []Endpoint `json:"endpoints,omitempty"`
	// Ports are the named ports of the entity.
	// +kubebuilder:validation:MaxItems=1024
	// +listType=atomic
	// +optional
	Ports []NamedPort `json:"ports,omitempty"`
	// ExternalNode is the key of the enforcer of policies on the entity; empty if there is none.
	// +kubebuilder:validation:MaxLength=512
	// +optional
	ExternalNode string `json:"externalNode,omitempty"`
}

// ExternalEntity is a workload outside the cluster that policies can select by label.
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=externalentities,shortName=ee,scope=Namespaced
// +kubebuilder:printcolumn:name="Address",type=string,JSONPath=`.spec.endpoints[0].ip`
// +kubebuilder:printcolumn:name="Address-2",type=string,JSONPath=`.spec.endpoints[1].ip`
// +kubebuilder:printcolumn:name="Address-3",type=string,priority=1,JSONPath=`.spec.endpoints[2].ip`
// +kubebuilder:printcolumn:name="Enforcer",type=string,JSONPath=`.spec.externalNode`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type ExternalEntity struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec ExternalEntitySpec `json:"spec,omitempty"`
}

// ExternalEntityList is a list of ExternalEntity.
// +kubebuilder:object:root=true
type ExternalEntityList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []ExternalEntity `json:"items"`
}
