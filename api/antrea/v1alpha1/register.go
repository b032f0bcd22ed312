package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupName is the API group of ExternalNode.
const GroupName = "crd.antrea.io"

// GroupVersion returns the group and version of the kinds of this package.
func GroupVersion() schema.GroupVersion {
	return schema.GroupVersion{Group: GroupName, Version: "v1alpha1"}
}

// AddToScheme registers the kinds of this package with a scheme.
func AddToScheme(s *runtime.Scheme) error {
	gv := GroupVersion()
	s.AddKnownTypes(gv, &ExternalNode{}, &ExternalNodeList{}, &PacketCapture{}, &PacketCaptureList{}, &NodeLatencyMonitor{}, &NodeLatencyMonitorList{})
	metav1.AddToGroupVersion(s, gv)
	return nil
}
