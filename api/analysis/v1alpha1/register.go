package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupName is the API group of the reviews.
const GroupName = "analysis.nephele.io"

// GroupVersion returns the group and version of the kinds of this package.
func GroupVersion() schema.GroupVersion {
	return schema.GroupVersion{Group: GroupName, Version: "v1alpha1"}
}

// AddToScheme registers the kinds of this package with a scheme.
func AddToScheme(s *runtime.Scheme) error {
	gv := GroupVersion()
	s.AddKnownTypes(gv, &FlowReview{}, &ReachReview{}, &EffectiveRules{}, &PlanReview{}, &TrafficReport{}, &FlowQuery{},
		&LocalPod{}, &LocalPodList{}, &NodeCertificate{})
	metav1.AddToGroupVersion(s, gv)
	return nil
}

// modelName begins the names of the kinds in the description of the API.
const modelName = "com.github.nephele-io.nephele.api.analysis.v1alpha1."

// OpenAPIModelName is the name of FlowReview in the description of the API.
func (FlowReview) OpenAPIModelName() string { return modelName + "FlowReview" }

// OpenAPIModelName is the name of ReachReview in the description of the API.
func (ReachReview) OpenAPIModelName() string { return modelName + "ReachReview" }

// OpenAPIModelName is the name of EffectiveRules in the description of the API.
func (EffectiveRules) OpenAPIModelName() string { return modelName + "EffectiveRules" }

// OpenAPIModelName is the name of PlanReview in the description of the API.
func (PlanReview) OpenAPIModelName() string { return modelName + "PlanReview" }

// OpenAPIModelName is the name of TrafficReport in the description of the API.
func (TrafficReport) OpenAPIModelName() string { return modelName + "TrafficReport" }

// OpenAPIModelName is the name of FlowQuery in the description of the API.
func (FlowQuery) OpenAPIModelName() string { return modelName + "FlowQuery" }

// OpenAPIModelName is the name of LocalPod in the description of the API.
func (LocalPod) OpenAPIModelName() string { return modelName + "LocalPod" }

// OpenAPIModelName is the name of LocalPodList in the description of the API.
func (LocalPodList) OpenAPIModelName() string { return modelName + "LocalPodList" }

// OpenAPIModelName is the name of NodeCertificate in the description of the API.
func (NodeCertificate) OpenAPIModelName() string { return modelName + "NodeCertificate" }
