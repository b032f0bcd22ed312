package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ControllerInfoName is the name of the one AntreaControllerInfo.
const ControllerInfoName = "antrea-controller"

// ControllerConditionType is what a condition of a controller is about.
// +kubebuilder:validation:Enum=ControllerHealthy
type ControllerConditionType string

// ControllerHealthy is True while the controller runs; its heartbeat tells whether it still does.
const ControllerHealthy ControllerConditionType = "ControllerHealthy"

// AgentConditionType is what a condition of an agent is about.
// +kubebuilder:validation:Enum=AgentHealthy;ControllerConnectionUp;OVSDBConnectionUp;OpenflowConnectionUp
type AgentConditionType string

// The conditions that an agent tells about itself.
const (
	AgentHealthy           AgentConditionType = "AgentHealthy"
	ControllerConnectionUp AgentConditionType = "ControllerConnectionUp"
	OVSDBConnectionUp      AgentConditionType = "OVSDBConnectionUp"
	OpenflowConnectionUp   AgentConditionType = "OpenflowConnectionUp"
)

// ObjectReference points at an object of the cluster.
type ObjectReference struct {
	// +optional
	Kind string `json:"kind,omitempty"`
	// +optional
	Namespace string `json:"namespace,omitempty"`
	// +optional
	Name string `json:"name,omitempty"`
	// +optional
	UID string `json:"uid,omitempty"`
	// +optional
	APIVersion string `json:"apiVersion,omitempty"`
	// +optional
	ResourceVersion string `json:"resourceVersion,omitempty"`
	// +optional
	FieldPath string `json:"fieldPath,omitempty"`
}

// NetworkPolicyControllerInfo counts what is computed, or what an agent has received of it.
type NetworkPolicyControllerInfo struct {
	// +optional
	NetworkPolicyNum int32 `json:"networkPolicyNum,omitempty"`
	// +optional
	AddressGroupNum int32 `json:"addressGroupNum,omitempty"`
	// +optional
	AppliedToGroupNum int32 `json:"appliedToGroupNum,omitempty"`
}

// ControllerCondition is one aspect of a controller's health.
type ControllerCondition struct {
	Type ControllerConditionType `json:"type"`
	// +kubebuilder:validation:Enum="True";"False";Unknown
	Status metav1.ConditionStatus `json:"status"`
	// LastHeartbeatTime is when that was found last.
	LastHeartbeatTime metav1.Time `json:"lastHeartbeatTime"`
	// +optional
	Reason string `json:"reason,omitempty"`
	// +optional
	Message string `json:"message,omitempty"`
}

// AgentCondition is one aspect of an agent's health.
type AgentCondition struct {
	Type AgentConditionType `json:"type"`
	// +kubebuilder:validation:Enum="True";"False";Unknown
	Status metav1.ConditionStatus `json:"status"`
	// LastHeartbeatTime is when that was found last.
	LastHeartbeatTime metav1.Time `json:"lastHeartbeatTime"`
	// +optional
	Reason string `json:"reason,omitempty"`
	// +optional
	Message string `json:"message,omitempty"`
}

// AntreaControllerInfo is what the policy controller tells about itself, once a minute.
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=antreacontrollerinfos,shortName=aci,scope=Cluster
// +kubebuilder:pruning:PreserveUnknownFields
// +kubebuilder:printcolumn:name="Healthy",type=string,JSONPath=`.controllerConditions[?(@.type=='ControllerHealthy')].status`
// +kubebuilder:printcolumn:name="Last Heartbeat",type=date,JSONPath=`.controllerConditions[?(@.type=='ControllerHealthy')].lastHeartbeatTime`
// +kubebuilder:printcolumn:name="Version",type=string,priority=1,JSONPath=`.version`
// +kubebuilder:printcolumn:name="Connected Agents",type=integer,priority=1,JSONPath=`.connectedAgentNum`
// +kubebuilder:printcolumn:name="Node",type=string,priority=1,JSONPath=`.nodeRef.name`
// +kubebuilder:printcolumn:name="Num Network Policies",type=integer,priority=2,JSONPath=`.networkPolicyControllerInfo.networkPolicyNum`
type AntreaControllerInfo struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Version of the controller.
	// +optional
	Version string `json:"version,omitempty"`
	// PodRef is the Pod that the controller runs in, if it does in one.
	// +optional
	PodRef ObjectReference `json:"podRef,omitzero"`
	// NodeRef is the Node that the controller runs on, if that is known.
	// +optional
	NodeRef ObjectReference `json:"nodeRef,omitzero"`
	// ServiceRef is the Service that leads to its API.
	// +optional
	ServiceRef ObjectReference `json:"serviceRef,omitzero"`
	// NetworkPolicyControllerInfo counts what is computed.
	// +optional
	NetworkPolicyControllerInfo NetworkPolicyControllerInfo `json:"networkPolicyControllerInfo,omitempty"`
	// ConnectedAgentNum is how many enforcers watch.
	// +optional
	ConnectedAgentNum int32 `json:"connectedAgentNum,omitempty"`
	// +optional
	ControllerConditions []ControllerCondition `json:"controllerConditions,omitempty"`
	// APIPort is where its API is served.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	// +optional
	APIPort int32 `json:"apiPort,omitempty"`
}

// AntreaControllerInfoList is a list of AntreaControllerInfo.
// +kubebuilder:object:root=true
type AntreaControllerInfoList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []AntreaControllerInfo `json:"items"`
}

// OVSInfo is what an agent tells about its Open vSwitch.
type OVSInfo struct {
	// +optional
	Version string `json:"version,omitempty"`
	// +optional
	BridgeName string `json:"bridgeName,omitempty"`
	// FlowTable has the number of flows by the name of their table.
	// +optional
	FlowTable map[string]int32 `json:"flowTable,omitempty"`
}

// NetworkInfo is what an agent tells about the network of its Node.
type NetworkInfo struct {
	// +optional
	TransportInterface string `json:"transportInterface,omitempty"`
	// +kubebuilder:validation:Minimum=0
	// +optional
	TransportInterfaceMTU int32 `json:"transportInterfaceMTU,omitempty"`
	// +kubebuilder:validation:Minimum=0
	// +optional
	PodMTU int32 `json:"podMTU,omitempty"`
	// +optional
	TransportInterfaceIPs []string `json:"transportInterfaceIPs,omitempty"`
}

// AntreaAgentInfo is what an agent tells about itself, once a minute. It is named after its Node or
// ExternalNode. The controller makes it and deletes it, the agent fills it in; also with what a
// later version of the agent has to tell.
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=antreaagentinfos,shortName=aai,scope=Cluster
// +kubebuilder:pruning:PreserveUnknownFields
// +kubebuilder:printcolumn:name="Healthy",type=string,JSONPath=`.agentConditions[?(@.type=='AgentHealthy')].status`
// +kubebuilder:printcolumn:name="Last Heartbeat",type=date,JSONPath=`.agentConditions[?(@.type=='AgentHealthy')].lastHeartbeatTime`
// +kubebuilder:printcolumn:name="Version",type=string,priority=1,JSONPath=`.version`
// +kubebuilder:printcolumn:name="Node",type=string,priority=1,JSONPath=`.nodeRef.name`
// +kubebuilder:printcolumn:name="Num Pods",type=integer,priority=2,JSONPath=`.localPodNum`
// +kubebuilder:printcolumn:name="Subnets",type=string,priority=2,JSONPath=`.nodeSubnets`
type AntreaAgentInfo struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Version of the agent.
	// +optional
	Version string `json:"version,omitempty"`
	// PodRef is the Pod that the agent runs in, if it does in one.
	// +optional
	PodRef ObjectReference `json:"podRef,omitzero"`
	// NodeRef is the Node or ExternalNode that the agent runs on.
	// +optional
	NodeRef ObjectReference `json:"nodeRef,omitzero"`
	// NodeSubnets are those from which the Pods of the Node get their addresses.
	// +optional
	NodeSubnets []string `json:"nodeSubnets,omitempty"`
	// +optional
	OVSInfo OVSInfo `json:"ovsInfo,omitzero"`
	// NetworkPolicyControllerInfo counts what the agent has received.
	// +optional
	NetworkPolicyControllerInfo NetworkPolicyControllerInfo `json:"networkPolicyControllerInfo,omitempty"`
	// LocalPodNum is how many Pods the agent serves.
	// +optional
	LocalPodNum int32 `json:"localPodNum,omitempty"`
	// +optional
	AgentConditions []AgentCondition `json:"agentConditions,omitempty"`
	// APIPort is where the agent's API is served.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	// +optional
	APIPort int32 `json:"apiPort,omitempty"`
	// APICABundle are the authorities of the certificate of that API, in PEM.
	// +optional
	APICABundle []byte `json:"apiCABundle,omitempty"`
	// NodePortLocalPortRange is that of the agent's NodePortLocal, such as 61000-62000.
	// +optional
	NodePortLocalPortRange string `json:"nodePortLocalPortRange,omitempty"`
	// +optional
	NetworkInfo NetworkInfo `json:"networkInfo,omitzero"`
}

// AntreaAgentInfoList is a list of AntreaAgentInfo.
// +kubebuilder:object:root=true
type AntreaAgentInfoList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []AntreaAgentInfo `json:"items"`
}
