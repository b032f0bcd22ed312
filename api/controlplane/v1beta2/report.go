package v1beta2

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// NetworkPolicyEvaluation asks which rule decides the traffic between two Pods.
// +kubebuilder:object:root=true
type NetworkPolicyEvaluation struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty" protobuf:"bytes,3,opt,name=metadata"`
	Request           *NetworkPolicyEvaluationRequest  `json:"request,omitempty" protobuf:"bytes,1,opt,name=request"`
	Response          *NetworkPolicyEvaluationResponse `json:"response,omitempty" protobuf:"bytes,2,opt,name=response"`
}

// NetworkPolicyEvaluationRequest is the traffic asked about.
type NetworkPolicyEvaluationRequest struct {
	Source      Entity `json:"source,omitempty" protobuf:"bytes,1,opt,name=source"`
	Destination Entity `json:"destination,omitempty" protobuf:"bytes,2,opt,name=destination"`
}

// NetworkPolicyEvaluationResponse is the rule that decides.
type NetworkPolicyEvaluationResponse struct {
	NetworkPolicy NetworkPolicyReference `json:"networkPolicy,omitempty" protobuf:"bytes,1,opt,name=networkPolicy"`
	// RuleIndex is the index of the rule among the rules of its direction.
	RuleIndex int32   `json:"ruleIndex,omitempty" protobuf:"varint,2,opt,name=ruleIndex"`
	Rule      RuleRef `json:"rule,omitempty" protobuf:"bytes,3,opt,name=rule"`
}

// RuleRef names a rule and what it does.
type RuleRef struct {
	Direction Direction   `json:"direction,omitempty" protobuf:"bytes,1,opt,name=direction,casttype=Direction"`
	Name      string      `json:"name,omitempty" protobuf:"bytes,2,opt,name=name"`
	Action    *RuleAction `json:"action,omitempty" protobuf:"bytes,3,opt,name=action,casttype=RuleAction"`
}

// Entity is one end of the traffic asked about.
type Entity struct {
	Pod *PodReference `json:"pod,omitempty" protobuf:"bytes,1,opt,name=pod"`
}

// NodeStatsSummary is what an enforcer counted since its last successful report. Its name is the
// key of the enforcer.
// +kubebuilder:object:root=true
type NodeStatsSummary struct {
	metav1.TypeMeta              `json:",inline"`
	metav1.ObjectMeta            `json:"metadata,omitempty" protobuf:"bytes,1,opt,name=metadata"`
	NetworkPolicies              []NetworkPolicyStats `json:"networkPolicies,omitempty" protobuf:"bytes,2,rep,name=networkPolicies"`
	AntreaClusterNetworkPolicies []NetworkPolicyStats `json:"antreaClusterNetworkPolicies,omitempty" protobuf:"bytes,3,rep,name=antreaClusterNetworkPolicies"`
	AntreaNetworkPolicies        []NetworkPolicyStats `json:"antreaNetworkPolicies,omitempty" protobuf:"bytes,4,rep,name=antreaNetworkPolicies"`
	Multicast                    []MulticastGroupInfo `json:"multicast,omitempty" protobuf:"bytes,5,rep,name=multicast"`
}

// NetworkPolicyStats are the counters of one policy.
type NetworkPolicyStats struct {
	NetworkPolicy NetworkPolicyReference `json:"networkPolicy,omitempty" protobuf:"bytes,1,opt,name=networkPolicy"`
	// TrafficStats are the totals (Kubernetes policies).
	TrafficStats TrafficStats `json:"trafficStats,omitempty" protobuf:"bytes,2,opt,name=trafficStats"`
	// RuleTrafficStats are the counters per rule (Antrea policies).
	RuleTrafficStats []RuleTrafficStats `json:"ruleTrafficStats,omitempty" protobuf:"bytes,3,rep,name=ruleTrafficStats"`
}

// TrafficStats are counters.
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

// MulticastGroupInfo lists the Pods of an enforcer that have joined a multicast group.
type MulticastGroupInfo struct {
	Group string         `json:"group,omitempty" protobuf:"bytes,1,opt,name=group"`
	Pods  []PodReference `json:"pods,omitempty" protobuf:"bytes,2,rep,name=pods"`
}
