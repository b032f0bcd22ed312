package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// MulticastGroup lists the Pods that have joined a multicast group, whose address is its name.
// +kubebuilder:object:root=true
type MulticastGroup struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty" protobuf:"bytes,1,opt,name=metadata"`
	// Group is the address.
	Group string         `json:"group,omitempty" protobuf:"bytes,2,opt,name=group"`
	Pods  []PodReference `json:"pods" protobuf:"bytes,3,rep,name=pods"`
}

// MulticastGroupList is a list of MulticastGroup.
// +kubebuilder:object:root=true
type MulticastGroupList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty" protobuf:"bytes,1,opt,name=metadata"`

	Items []MulticastGroup `json:"items" protobuf:"bytes,2,rep,name=items"`
}

// PodReference points at a Pod.
type PodReference struct {
	Name      string `json:"name,omitempty" protobuf:"bytes,1,opt,name=name"`
	Namespace string `json:"namespace,omitempty" protobuf:"bytes,2,opt,name=namespace"`
}

// NodeLatencyStats is what the Node of that name measured last of its way to the other Nodes.
// +kubebuilder:object:root=true
type NodeLatencyStats struct {
	metav1.TypeMeta      `json:",inline"`
	metav1.ObjectMeta    `json:"metadata,omitempty" protobuf:"bytes,1,opt,name=metadata"`
	PeerNodeLatencyStats []PeerNodeLatencyStats `json:"peerNodeLatencyStats,omitempty" protobuf:"bytes,2,rep,name=peerNodeLatencyStats"`
}

// NodeLatencyStatsList is a list of NodeLatencyStats.
// +kubebuilder:object:root=true
type NodeLatencyStatsList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty" protobuf:"bytes,1,opt,name=metadata"`

	Items []NodeLatencyStats `json:"items" protobuf:"bytes,2,rep,name=items"`
}

// PeerNodeLatencyStats is what was measured to one Node.
type PeerNodeLatencyStats struct {
	NodeName             string                 `json:"nodeName,omitempty" protobuf:"bytes,1,opt,name=nodeName"`
	TargetIPLatencyStats []TargetIPLatencyStats `json:"targetIPLatencyStats,omitempty" protobuf:"bytes,2,rep,name=targetIPLatencyStats"`
}

// TargetIPLatencyStats is what was measured to one address of a Node.
type TargetIPLatencyStats struct {
	TargetIP     string      `json:"targetIP,omitempty" protobuf:"bytes,1,opt,name=targetIP"`
	LastSendTime metav1.Time `json:"lastSendTime,omitempty" protobuf:"bytes,2,opt,name=lastSendTime"`
	LastRecvTime metav1.Time `json:"lastRecvTime,omitempty" protobuf:"bytes,3,opt,name=lastRecvTime"`
	// LastMeasuredRTTNanoseconds is the time there and back.
	LastMeasuredRTTNanoseconds int64 `json:"lastMeasuredRTTNanoseconds,omitempty" protobuf:"varint,4,opt,name=lastMeasuredRTTNanoseconds"`
}
