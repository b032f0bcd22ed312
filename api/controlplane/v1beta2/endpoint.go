package v1beta2

// EndpointQueryResponse is the answer of the path /endpoint. It is plain JSON, no kind of the API.
type EndpointQueryResponse struct {
	// Endpoints has the one Pod that was asked for.
	Endpoints []Endpoint `json:"endpoints,omitempty"`
}

// Endpoint says which policies concern a Pod.
type Endpoint struct {
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name,omitempty"`
	// AppliedPolicies apply to the Pod.
	AppliedPolicies []NetworkPolicyReference `json:"policies,omitempty"`
	// IngressSrcRules are the ingress rules that have the Pod among their sources.
	IngressSrcRules []EndpointRule `json:"ingresssrcrules,omitempty"`
	// EgressDstRules are the egress rules that have the Pod among their destinations.
	EgressDstRules []EndpointRule `json:"egressdstrules,omitempty"`
}

// EndpointRule points at a rule of a policy.
type EndpointRule struct {
	PolicyRef NetworkPolicyReference `json:"policyref,omitempty"`
	Direction Direction              `json:"direction,omitempty"`
	// RuleIndex counts the rules of the policy in that direction from 0.
	RuleIndex int `json:"ruleindex,omitempty"`
}
