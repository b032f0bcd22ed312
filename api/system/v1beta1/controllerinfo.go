package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupName is the API group of the controller's facts about itself.
const GroupName = "system.antrea.io"

// ControllerInfoName is the name of the one AntreaControllerInfo.
const ControllerInfoName = "antrea-controller"

// GroupVersion returns the group and version of the kinds of this package.
func GroupVersion() schema.GroupVersion {
	return schema.GroupVersion{Group: GroupName, Version: "v1beta1"}
}

// AddToScheme registers the kinds of this package with a scheme.
func AddToScheme(s *runtime.Scheme) error {
	gv := GroupVersion()
	s.AddKnownTypes(gv, &AntreaControllerInfo{}, &AntreaControllerInfoList{}, &SupportBundle{})
	metav1.AddToGroupVersion(s, gv)
	return nil
}

// AntreaControllerInfo says what a controller does.
// +kubebuilder:object:root=true
type AntreaControllerInfo struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	// Version of the controller.
	Version string `json:"version,omitempty"`
	// PodRef and NodeRef are where it runs, if that is known; ServiceRef leads to it.
	PodRef     ObjectReference `json:"podRef,omitzero"`
	NodeRef    ObjectReference `json:"nodeRef,omitzero"`
	ServiceRef ObjectReference `json:"serviceRef,omitzero"`
	// NetworkPolicyControllerInfo counts what is computed.
	NetworkPolicyControllerInfo NetworkPolicyControllerInfo `json:"networkPolicyControllerInfo,omitempty"`
	// ConnectedAgentNum is how many enforcers watch.
	ConnectedAgentNum    int32                 `json:"connectedAgentNum,omitempty"`
	ControllerConditions []ControllerCondition `json:"controllerConditions,omitempty"`
	// APIPort is where the API is served.
	APIPort int `json:"apiPort,omitempty"`
}

// AntreaControllerInfoList is a list of AntreaControllerInfo.
// +kubebuilder:object:root=true
type AntreaControllerInfoList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []AntreaControllerInfo `json:"items"`
}

// ObjectReference points at an object of the cluster.
type ObjectReference struct {
	Kind      string `json:"kind,omitempty"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name,omitempty"`
}

// NetworkPolicyControllerInfo counts what is computed.
type NetworkPolicyControllerInfo struct {
	NetworkPolicyNum  int32 `json:"networkPolicyNum,omitempty"`
	AddressGroupNum   int32 `json:"addressGroupNum,omitempty"`
	AppliedToGroupNum int32 `json:"appliedToGroupNum,omitempty"`
}

// ControllerHealthy is the type of the one condition: True while the controller answers.
const ControllerHealthy = "ControllerHealthy"

// ControllerCondition is one aspect of a controller's health.
type ControllerCondition struct {
	Type   string                 `json:"type"`
	Status metav1.ConditionStatus `json:"status"`
	// LastHeartbeatTime is when that was found.
	LastHeartbeatTime metav1.Time `json:"lastHeartbeatTime"`
	Reason            string      `json:"reason,omitempty"`
	Message           string      `json:"message,omitempty"`
}

// The names of the types in the description of the API.
const modelPrefix = "com.github.nephele-io.nephele.api.system.v1beta1."

// OpenAPIModelName is the name of AntreaControllerInfo in the description of the API.
func (AntreaControllerInfo) OpenAPIModelName() string { return modelPrefix + "AntreaControllerInfo" }

// OpenAPIModelName is the name of AntreaControllerInfoList in the description of the API.
func (AntreaControllerInfoList) OpenAPIModelName() string {
	return modelPrefix + "AntreaControllerInfoList"
}

// OpenAPIModelName is the name of ObjectReference in the description of the API.
func (ObjectReference) OpenAPIModelName() string { return modelPrefix + "ObjectReference" }

// OpenAPIModelName is the name of NetworkPolicyControllerInfo in the description of the API.
func (NetworkPolicyControllerInfo) OpenAPIModelName() string {
	return modelPrefix + "NetworkPolicyControllerInfo"
}

// OpenAPIModelName is the name of ControllerCondition in the description of the API.
func (ControllerCondition) OpenAPIModelName() string { return modelPrefix + "ControllerCondition" }
