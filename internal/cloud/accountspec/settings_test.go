package accountspec

import (
	"reflect"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/nephele-io/nephele/api/cloud/v1alpha1"
)

// TestPropagationSetting: an account that says nothing has the default, and none waits longer than
// it may say.
func TestPropagationSetting(t *testing.T) {
	for _, c := range []struct {
		given *int32
		want  time.Duration
	}{{nil, 3 * time.Second}, {ptr.To[int32](0), 0}, {ptr.To[int32](5), 5 * time.Second}, {ptr.To[int32](300), 5 * time.Minute}, {ptr.To[int32](-1), 0}, {ptr.To[int32](1 << 30), 5 * time.Minute}} {
		got := SettingsOf(&v1alpha1.CloudProviderAccount{Spec: v1alpha1.CloudProviderAccountSpec{PropagationSeconds: c.given}}, 3*time.Second).Propagation
		if got != c.want {
			t.Errorf("%v: %s, want %s", c.given, got, c.want)
		}
	}
}

// TestForcedBy: the author of the annotation is the one in the API server's managed fields, and of
// no other field.
func TestForcedBy(t *testing.T) {
	at := metav1.NewTime(time.Date(2026, 11, 29, 6, 0, 0, 0, time.UTC))
	entry := func(manager, fields string) metav1.ManagedFieldsEntry {
		return metav1.ManagedFieldsEntry{Manager: manager, Time: &at, FieldsV1: metav1.NewFieldsV1(fields)}
	}
	cpa := &v1alpha1.CloudProviderAccount{}
	cpa.ManagedFields = []metav1.ManagedFieldsEntry{
		entry("nephele", `{"f:status":{}}`), entry("garbage", `[`),
		entry("kubectl-annotate", `{"f:metadata":{"f:annotations":{".":{},"f:nephele.io/force":{}}}}`), {Manager: "nothing"},
	}
	if got := SettingsOf(cpa, 0); got.Force != "" || got.ForcedBy != "" {
		t.Errorf("without the annotation: %q by %q", got.Force, got.ForcedBy)
	}
	for value, want := range map[string]string{
		"0badc0ffee0badc0":                   "the client kubectl-annotate at 2026-11-29T06:00:00Z",
		"0badc0ffee0badc0 by alice":          "alice with kubectl-annotate at 2026-11-29T06:00:00Z",
		"0badc0ffee0badc0 by alice by bob":   "alice by bob with kubectl-annotate at 2026-11-29T06:00:00Z",
		"0badc0ffee0badc0 by \x1b[1mmallory": "[1mmallory with kubectl-annotate at 2026-11-29T06:00:00Z",
	} {
		cpa.Annotations = map[string]string{v1alpha1.AnnotationForce: value}
		if got := SettingsOf(cpa, 0); got.Force != "0badc0ffee0badc0" || got.ForcedBy != want {
			t.Errorf("%q: %q by %q", value, got.Force, got.ForcedBy)
		}
	}
	cpa.ManagedFields, cpa.Annotations[v1alpha1.AnnotationForce] = nil, "0badc0ffee0badc0 by alice"
	if got := SettingsOf(cpa, 0); got.ForcedBy != "alice" {
		t.Errorf("where no client is known: %q", got.ForcedBy)
	}
}

// TestSilentAccounts: what holds where an account says nothing depends on whether it is older than
// the field. An older one goes on as it was.
func TestSilentAccounts(t *testing.T) {
	young, old := &v1alpha1.CloudProviderAccount{}, &v1alpha1.CloudProviderAccount{}
	old.Status.CloudAccountID = "123456789012"
	if got := []any{UserTagsOf(young), DeletionPolicyOf(young)}; !reflect.DeepEqual(got, []any{v1alpha1.UserTagsSeparate, v1alpha1.DeletionProtect}) {
		t.Errorf("a new account: %v", got)
	}
	if got := []any{UserTagsOf(old), DeletionPolicyOf(old)}; !reflect.DeepEqual(got, []any{v1alpha1.UserTagsMerge, v1alpha1.DeletionRelease}) {
		t.Errorf("an old account: %v", got)
	}
	old.Status.UserTags, old.Status.DeletionPolicy = v1alpha1.UserTagsSeparate, v1alpha1.DeletionProtect
	if got := []any{UserTagsOf(old), DeletionPolicyOf(old)}; !reflect.DeepEqual(got, []any{v1alpha1.UserTagsSeparate, v1alpha1.DeletionProtect}) {
		t.Errorf("an account whose status remembers: %v", got)
	}
	old.Spec.UserTags, old.Spec.DeletionPolicy = v1alpha1.UserTagsMerge, v1alpha1.DeletionRelease
	if got := []any{UserTagsOf(old), DeletionPolicyOf(old)}; !reflect.DeepEqual(got, []any{v1alpha1.UserTagsMerge, v1alpha1.DeletionRelease}) {
		t.Errorf("an account that says so: %v", got)
	}
}

// TestConfigOf: an account of a cloud says how to reach it; one that names none says nothing.
func TestConfigOf(t *testing.T) {
	ref := &v1alpha1.SecretReference{Namespace: "secrets", Name: "s", Key: "k"}
	for what, c := range map[string]struct {
		spec v1alpha1.CloudProviderAccountSpec
		want Config
	}{
		"nothing": {want: Config{Account: "n/a"}},
		"AWS": {v1alpha1.CloudProviderAccountSpec{AWSConfig: &v1alpha1.CloudProviderAccountAWSConfig{Region: []string{"r"}, Endpoint: "https://e", SecretRef: ref}},
			Config{Account: "n/a", Cloud: v1alpha1.CloudProviderAWS, Regions: []string{"r"}, Endpoint: "https://e", Secret: "secrets/s", SecretKey: "k"}},
		"Azure": {v1alpha1.CloudProviderAccountSpec{AzureConfig: &v1alpha1.CloudProviderAccountAzureConfig{Region: []string{"r"}, SecretRef: ref}},
			Config{Account: "n/a", Cloud: v1alpha1.CloudProviderAzure, Regions: []string{"r"}, Secret: "secrets/s", SecretKey: "k", FormerGroups: "x"}},
	} {
		cpa := &v1alpha1.CloudProviderAccount{Spec: c.spec}
		cpa.Namespace, cpa.Name, cpa.Annotations = "n", "a", map[string]string{v1alpha1.AnnotationFormerGroups: "x"}
		got, gotRef := ConfigOf(cpa)
		if !reflect.DeepEqual(got, c.want) || (gotRef != nil) != (c.want.Secret != "") {
			t.Errorf("%s: %+v, %v; want %+v", what, got, gotRef, c.want)
		}
	}
}
