package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// NetworkPolicyStats are the counters of a Kubernetes NetworkPolicy. It has the name and namespace
// of the policy; its creationTimestamp is when counting began.
// +kubebuilder:object:root=true
type NetworkPolicyStats struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty" protobuf:"bytes,1,opt,name=metadata"`
	TrafficStats      TrafficStats `json:"trafficStats,omitempty" protobuf:"bytes,2,opt,name=trafficStats"`
}

// NetworkPolicyStatsList is a list of NetworkPolicyStats.
// +kubebuilder:object:root=true
type NetworkPolicyStatsList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty" protobuf:"bytes,1,opt,name=metadata"`

	Items []NetworkPolicyStats `json:"items" protobuf:"bytes,2,rep,name=items"`
}

// AntreaNetworkPolicyStats are the counters of a NetworkPolicy of crd.antrea.io. It has the name
// and namespace of the policy; its creationTimestamp is when counting began.
// +kubebuilder:object:root=true
type AntreaNetworkPolicyStats struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty" protobuf:"bytes,1,opt,name=metadata"`
	// TrafficStats are the totals over all rules.
	TrafficStats TrafficStats `json:"trafficStats,omitempty" protobuf:"bytes,2,opt,name=trafficStats"`
	// RuleTrafficStats are the counters of each rule that has counted anything.
	RuleTrafficStats []RuleTrafficStats `json:"ruleTrafficStats,omitempty" protobuf:"bytes,3,rep,name=ruleTrafficStats"`
}

// AntreaNetworkPolicyStatsList is a list of AntreaNetworkPolicyStats.
// +kubebuilder:object:root=true
type AntreaNetworkPolicyStatsList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty" protobuf:"bytes,1,opt,name=metadata"`

	Items []AntreaNetworkPolicyStats `json:"items" protobuf:"bytes,2,rep,name=items"`
}

// AntreaClusterNetworkPolicyStats are the counters of a ClusterNetworkPolicy of crd.antrea.io. It
// has the name of the policy; its creationTimestamp is when counting began.
// +kubebuilder:object:root=true
type AntreaClusterNetworkPolicyStats struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty" protobuf:"bytes,1,opt,name=metadata"`
	// TrafficStats are the totals over all rules.
	TrafficStats TrafficStats `json:"trafficStats,omitempty" protobuf:"bytes,2,opt,name=trafficStats"`
	// RuleTrafficStats are the counters of each rule that has counted anything.
	RuleTrafficStats []RuleTrafficStats `json:"ruleTrafficStats,omitempty" protobuf:"bytes,3,rep,name=ruleTrafficStats"`
}

// AntreaClusterNetworkPolicyStatsList is a list of AntreaClusterNetworkPolicyStats.
// +kubebuilder:object:root=true
type AntreaClusterNetworkPolicyStatsList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty" protobuf:"bytes,1,opt,name=metadata"`

	Items []AntreaClusterNetworkPolicyStats `json:"items" protobuf:"bytes,2,rep,name=items"`
}

// TrafficStats are counters of one direction or rule, since counting began.
type TrafficStats struct {
	Packets  int64 `json:"packets,omitempty" protobuf:"varint,1,opt,name=packets"`
	Bytes    int64 `json:"bytes,omitempty" protobuf:"varint,2,opt,name=bytes"`
	Sessions int64 `json:"sessions,omitempty" protobuf:"varint,3,opt,name=sessions"`
}

// RuleTrafficStats are the counters of the rule of that name.
type RuleTrafficStats struct {
	Name         string       `json:"name,omitempty" protobuf:"bytes,1,opt,name=name"`
	TrafficStats TrafficStats `json:"trafficStats,omitempty" protobuf:"bytes,2,opt,name=trafficStats"`
}
