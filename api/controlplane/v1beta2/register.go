package v1beta2

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupName is the API group of the computed kinds.
const GroupName = "controlplane.antrea.io"

// GroupVersion returns the group and version of the kinds of this package.
func GroupVersion() schema.GroupVersion {
	return schema.GroupVersion{Group: GroupName, Version: "v1beta2"}
}

// AddToScheme registers the kinds of this package with a scheme.
func AddToScheme(s *runtime.Scheme) error {
	gv := GroupVersion()
	s.AddKnownTypes(gv,
		&NetworkPolicy{}, &NetworkPolicyList{}, &NetworkPolicyStatus{},
		&AddressGroup{}, &AddressGroupList{}, &AddressGroupPatch{},
		&AppliedToGroup{}, &AppliedToGroupList{}, &AppliedToGroupPatch{},
		&GroupMembers{}, &ClusterGroupMembers{}, &PaginationGetOptions{},
		&GroupAssociation{}, &IPGroupAssociation{},
		&NetworkPolicyEvaluation{},
		&NodeStatsSummary{},
		&EgressGroup{}, &EgressGroupList{}, &EgressGroupPatch{},
		&SupportBundleCollection{}, &SupportBundleCollectionList{}, &SupportBundleCollectionStatus{},
	)
	metav1.AddToGroupVersion(s, gv)
	return nil
}
