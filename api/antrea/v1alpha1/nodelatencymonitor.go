package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// NodeLatencyMonitorSpec is how often is measured.
type NodeLatencyMonitorSpec struct {
	// PingIntervalSeconds is how often each Node asks each other one.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=86400
	// +kubebuilder:default=60
	PingIntervalSeconds int32 `json:"pingIntervalSeconds"`
}

// NodeLatencyMonitor lets Nodes measure how long packets take to the others. There is one, called
// default.
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=nodelatencymonitors,shortName=nlm,scope=Cluster
// +kubebuilder:validation:XValidation:rule="self.metadata.name == 'default'",message="metadata.name: there is one NodeLatencyMonitor, called default"
// +kubebuilder:printcolumn:name="PingIntervalSeconds",type=integer,JSONPath=`.spec.pingIntervalSeconds`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type NodeLatencyMonitor struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec NodeLatencyMonitorSpec `json:"spec"`
}

// NodeLatencyMonitorList is a list of NodeLatencyMonitor.
// +kubebuilder:object:root=true
type NodeLatencyMonitorList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []NodeLatencyMonitor `json:"items"`
}
