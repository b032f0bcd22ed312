package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

const (
	// AnnotationIngressBandwidth on a Pod bounds what it receives, in bits a second.
	AnnotationIngressBandwidth = "kubernetes.io/ingress-bandwidth"
	// AnnotationEgressBandwidth on a Pod bounds what it sends, in bits a second.
	AnnotationEgressBandwidth = "kubernetes.io/egress-bandwidth"
)

// LocalPod is a Pod as the agent of its Node needs it: no environment, command, volume or label. A
// Node gets its own Pods only, if they have addresses of their own and have not ended: lists and
// watches name it by fieldSelector=nodeName=NODE, and the caller must be the agent of that Node.
//
// Of the metadata there are namespace, name, uid (by which the runtime of the Node knows the Pod),
// creationTimestamp, and the resourceVersion of this kind.
//
// +kubebuilder:object:root=true
type LocalPod struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	// PodVersion is the resourceVersion of the Pod itself.
	PodVersion string `json:"podVersion,omitempty"`
	// Addresses are the addresses of the Pod.
	Addresses []string `json:"addresses,omitempty"`
	// HostPorts are ports of the Node that lead to the Pod.
	HostPorts []HostPort `json:"hostPorts,omitempty"`
	// IngressBandwidth and EgressBandwidth are the values of these annotations, in bits a second.
	IngressBandwidth string `json:"ingressBandwidth,omitempty"`
	EgressBandwidth  string `json:"egressBandwidth,omitempty"`
}

// HostPort is a port of a Node that leads to a port of a Pod.
type HostPort struct {
	// Protocol is TCP, UDP or SCTP.
	Protocol string `json:"protocol"`
	// Address is the address of the Node; empty means all of them.
	Address string `json:"address,omitempty"`
	// Port is that of the Node, ContainerPort that of the Pod, from 1 to 65535.
	Port          int32 `json:"port"`
	ContainerPort int32 `json:"containerPort"`
}

// LocalPodList are the Pods of a Node, all of them.
//
// +kubebuilder:object:root=true
type LocalPodList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	// AsOf is the resourceVersion of Pods up to which the controller has received them.
	AsOf  string     `json:"asOf,omitempty"`
	Items []LocalPod `json:"items"`
}
