package apiserver

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/nephele-io/nephele/api/controlplane/v1beta2"
)

// The fields that objects can be selected by.
const (
	fieldName = "metadata.name"
	fieldKey  = "nodeName"
)

// externalScheme knows the kinds as they are on the wire.
func externalScheme() (*runtime.Scheme, error) {
	s := runtime.NewScheme()
	if err := v1beta2.AddToScheme(s); err != nil {
		return nil, err
	}
	if err := s.SetVersionPriority(v1beta2.GroupVersion()); err != nil {
		return nil, fmt.Errorf("build the scheme: %w", err)
	}
	unversioned := schema.GroupVersion{Version: "v1"}
	metav1.AddToGroupVersion(s, unversioned)
	s.AddUnversionedTypes(unversioned,
		&metav1.Status{}, &metav1.APIVersions{}, &metav1.APIGroupList{}, &metav1.APIGroup{}, &metav1.APIResourceList{})
	return s, nil
}

// servingScheme is externalScheme with what a server needs beyond it: the field selectors, and an internal version. That
// consists of the same Go types, so no conversion ever copies anything.
func servingScheme() (*runtime.Scheme, error) {
	s, err := externalScheme()
	if err != nil {
		return nil, err
	}
	gv := v1beta2.GroupVersion()
	internal := schema.GroupVersion{Group: gv.Group, Version: runtime.APIVersionInternal}
	for kind, typ := range s.KnownTypes(gv) {
		if typ.PkgPath() != ownPackage {
			continue
		}
		object, err := s.New(gv.WithKind(kind))
		if err != nil {
			return nil, fmt.Errorf("build the scheme: %w", err)
		}
		s.AddKnownTypeWithName(internal.WithKind(kind), object)
	}
	for _, kind := range []string{"NetworkPolicy", "AddressGroup", "AppliedToGroup"} {
		if err := s.AddFieldLabelConversionFunc(gv.WithKind(kind), checkField); err != nil {
			return nil, fmt.Errorf("build the scheme: %w", err)
		}
	}
	return s, nil
}

// checkField refuses fields that objects cannot be selected by.
func checkField(label, value string) (string, string, error) {
	switch label {
	case fieldName, fieldKey:
		return label, value, nil
	}
	return "", "", fmt.Errorf("%q is not a field to select by, want %s or %s", label, fieldName, fieldKey)
}
