// Package groups knows the API groups that the controller serves: their kinds, the schemes by which
// requests are read, the fields that objects can be selected by, and what OpenAPI says of them.
//
// It keeps no state; its functions may be called from anywhere.
package groups

import (
	"fmt"
	"maps"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/conversion"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	analysis "github.com/nephele-io/nephele/api/analysis/v1alpha1"
	"github.com/nephele-io/nephele/api/controlplane/v1beta2"
	"github.com/nephele-io/nephele/api/stats/v1alpha1"
	"github.com/nephele-io/nephele/api/system/v1beta1"
)

// The fields that objects can be selected by.
const (
	FieldName = "metadata.name"
	FieldKey  = "nodeName"
)

// apis are the API groups of this server, with what adds their kinds to a scheme.
func apis() map[schema.GroupVersion]func(*runtime.Scheme) error {
	return map[schema.GroupVersion]func(*runtime.Scheme) error{
		v1beta2.GroupVersion(): v1beta2.AddToScheme, v1alpha1.GroupVersion(): v1alpha1.AddToScheme,
		v1beta1.GroupVersion(): v1beta1.AddToScheme, analysis.GroupVersion(): analysis.AddToScheme,
	}
}

// Versions lists the API groups in order.
func Versions() []schema.GroupVersion {
	return slices.SortedFunc(maps.Keys(apis()), func(a, b schema.GroupVersion) int { return strings.Compare(a.Group, b.Group) })
}

// isOwn distinguishes the types of the API groups from the types of Kubernetes that are in their
// versions as well.
func isOwn(typ reflect.Type) bool {
	return typ.PkgPath() == reflect.TypeFor[v1beta2.NetworkPolicy]().PkgPath() ||
		typ.PkgPath() == reflect.TypeFor[v1alpha1.NetworkPolicyStats]().PkgPath() ||
		typ.PkgPath() == reflect.TypeFor[v1beta1.AntreaControllerInfo]().PkgPath() ||
		typ.PkgPath() == reflect.TypeFor[analysis.FlowReview]().PkgPath()
}

// External knows the kinds as they are on the wire.
func External() (*runtime.Scheme, error) {
	s := runtime.NewScheme()
	for gv, add := range apis() {
		if err := add(s); err != nil {
			return nil, err
		}
		if err := s.SetVersionPriority(gv); err != nil {
			return nil, fmt.Errorf("build the scheme: %w", err)
		}
	}
	unversioned := schema.GroupVersion{Version: "v1"}
	metav1.AddToGroupVersion(s, unversioned)
	s.AddUnversionedTypes(unversioned,
		&metav1.Status{}, &metav1.APIVersions{}, &metav1.APIGroupList{}, &metav1.APIGroup{}, &metav1.APIResourceList{})
	return s, nil
}

// Serving is External with what a server needs beyond it: the field selectors, and an
// internal version. That consists of the same Go types, so no conversion ever copies anything.
func Serving() (*runtime.Scheme, error) {
	s, err := External()
	if err != nil {
		return nil, err
	}
	for gv := range apis() {
		for kind, typ := range s.KnownTypes(gv) {
			if !isOwn(typ) {
				continue
			}
			object, err := s.New(gv.WithKind(kind))
			if err != nil {
				return nil, fmt.Errorf("build the scheme: %w", err)
			}
			s.AddKnownTypeWithName(schema.GroupVersionKind{Group: gv.Group, Version: runtime.APIVersionInternal, Kind: kind}, object)
		}
	}
	if err := s.AddConversionFunc((*url.Values)(nil), (*v1beta2.PaginationGetOptions)(nil), readPage); err != nil {
		return nil, fmt.Errorf("build the scheme: %w", err)
	}
	for _, kind := range []string{"NetworkPolicy", "AddressGroup", "AppliedToGroup", "EgressGroup", "SupportBundleCollection"} {
		if err := s.AddFieldLabelConversionFunc(v1beta2.GroupVersion().WithKind(kind), checkField); err != nil {
			return nil, fmt.Errorf("build the scheme: %w", err)
		}
	}
	if err := s.AddFieldLabelConversionFunc(analysis.GroupVersion().WithKind("LocalPod"), checkNodeField); err != nil {
		return nil, fmt.Errorf("build the scheme: %w", err)
	}
	return s, nil
}

// checkField refuses fields that objects cannot be selected by.
func checkField(label, value string) (string, string, error) {
	switch label {
	case FieldName, FieldKey:
		return label, value, nil
	}
	return "", "", fmt.Errorf("%q is not a field to select by, want %s or %s", label, FieldName, FieldKey)
}

// readPage reads which page of members is asked for.
func readPage(in, out any, _ conversion.Scope) error {
	query, page := *in.(*url.Values), out.(*v1beta2.PaginationGetOptions)
	for name, target := range map[string]*int64{"page": &page.Page, "limit": &page.Limit} {
		text := query.Get(name)
		if text == "" {
			continue
		}
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return fmt.Errorf("%s %q is no number", name, text)
		}
		*target = n
	}
	return nil
}

// checkNodeField refuses fields that LocalPods cannot be selected by.
func checkNodeField(label, value string) (string, string, error) {
	if label != FieldKey {
		return "", "", fmt.Errorf("%q is not a field to select by, want %s", label, FieldKey)
	}
	return label, value, nil
}
