package accountspec

import (
	"cmp"
	"encoding/json"
	"strings"
	"time"

	"github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/cloud"
)

// Settings are what an account says about enforcement beside the mode.
type Settings struct {
	// Cloud is the cloud that the account is of; empty if it says none.
	Cloud v1alpha1.CloudProvider
	// MaxPerWave is spec.maxPerWave; 0 means no bound.
	MaxPerWave int
	// Propagation is spec.propagationSeconds, or else that of the Options; 0 means that nothing
	// waits.
	Propagation time.Duration
	// Failsafe is spec.failsafe. It must not be changed.
	Failsafe []v1alpha1.FailsafeFlow
	// BrakePercent and BrakeInterfaces are spec.brake, with its defaults, and Confirm is the
	// annotation that lets go on what it holds.
	BrakePercent, BrakeInterfaces int
	Confirm                       string
	// Force is the hash in the annotation v1alpha1.AnnotationForce, and ForcedBy which user set it,
	// by which client, and when, as far as that is known.
	Force, ForcedBy string
	// FormerGroups is the annotation v1alpha1.AnnotationFormerGroups.
	FormerGroups string
	// TakeOver is the annotation AnnotationTakeOver.
	TakeOver string
	// Dependents and DependentGroups come from the spec. They must not be changed.
	Dependents      v1alpha1.Dependents
	DependentGroups []v1alpha1.DependentGroup
}

// mostPropagation is the maximum of spec.propagationSeconds, which the schema refuses to exceed.
const mostPropagation = 300

// SettingsOf returns what the account says; propagation is that of an account that says none.
func SettingsOf(cpa *v1alpha1.CloudProviderAccount, propagation time.Duration) Settings {
	force, user := word(cpa.Annotations[v1alpha1.AnnotationForce])
	s := Settings{
		Propagation: propagation,
		Failsafe:    cpa.Spec.Failsafe, FormerGroups: cpa.Annotations[v1alpha1.AnnotationFormerGroups], Confirm: cpa.Annotations[v1alpha1.AnnotationConfirm],
		Force: force, ForcedBy: forcedBy(user, annotatedBy(cpa, v1alpha1.AnnotationForce)),
		TakeOver:   cpa.Annotations[v1alpha1.AnnotationTakeOver],
		Dependents: cpa.Spec.Dependents, DependentGroups: cpa.Spec.DependentGroups,
		BrakePercent: int(v1alpha1.DefaultBrakePercent), BrakeInterfaces: int(v1alpha1.DefaultBrakeInterfaces),
	}
	if b := cpa.Spec.Brake; b != nil && b.Percent != nil {
		s.BrakePercent = int(*b.Percent)
	}
	if b := cpa.Spec.Brake; b != nil && b.Interfaces != nil {
		s.BrakeInterfaces = int(*b.Interfaces)
	}
	config, _ := ConfigOf(cpa)
	s.Cloud = config.Cloud
	if n := cpa.Spec.MaxPerWave; n != nil {
		s.MaxPerWave = int(*n)
	}
	if n := cpa.Spec.PropagationSeconds; n != nil {
		s.Propagation = time.Duration(min(max(*n, 0), mostPropagation)) * time.Second
	}
	return s
}

// word takes "HASH by USER" apart. The admission policy nephele-force refuses other users.
func word(value string) (hash, user string) {
	hash, user, _ = strings.Cut(value, v1alpha1.ForceBy)
	return hash, cloud.Words(user)
}

// forcedBy names the user and the client. The client is all that the API server knows of a word
// that names no user.
func forcedBy(user, client string) string {
	switch {
	case user == "" && client != "":
		return "the client " + client
	case client != "":
		return user + " with " + client
	}
	return user
}

// annotatedBy tells which client set an annotation, and when; empty if that is not known.
func annotatedBy(cpa *v1alpha1.CloudProviderAccount, annotation string) (by string) {
	if cpa.Annotations[annotation] == "" {
		return ""
	}
	for _, m := range cpa.ManagedFields {
		var fields struct {
			Metadata struct {
				Annotations map[string]json.RawMessage `json:"f:annotations"`
			} `json:"f:metadata"`
		}
		if m.FieldsV1 == nil || m.Time == nil || json.Unmarshal(m.FieldsV1.GetRawBytes(), &fields) != nil {
			continue
		}
		if _, set := fields.Metadata.Annotations["f:"+annotation]; set {
			by = cloud.Words(m.Manager) + " at " + m.Time.UTC().Format(time.RFC3339)
		}
	}
	return by
}

// UserTagsOf is what becomes of spec.tags of an account's VirtualMachine objects. An account that
// was read before that could be said goes on as it was: policies may select by labels from these
// tags, and an upgrade must not open anything.
func UserTagsOf(cpa *v1alpha1.CloudProviderAccount) v1alpha1.UserTags {
	switch {
	case cpa.Spec.UserTags != "":
		return cpa.Spec.UserTags
	case cpa.Status.UserTags != "":
		return cpa.Status.UserTags
	}
	return UserTagsAtFirst(&cpa.Status)
}

// UserTagsAtFirst is what becomes of these tags where nobody has said anything yet.
func UserTagsAtFirst(st *v1alpha1.CloudProviderAccountStatus) v1alpha1.UserTags {
	if st.CloudAccountID != "" {
		return v1alpha1.UserTagsMerge
	}
	return v1alpha1.UserTagsSeparate
}

// DeletionPolicyOf says whether an account may be deleted while VMs are guarded through it. One
// that was read before that could be said stays as it was: tools that delete it as they always did
// go on working.
func DeletionPolicyOf(cpa *v1alpha1.CloudProviderAccount) v1alpha1.DeletionPolicy {
	return cmp.Or(cpa.Spec.DeletionPolicy, cpa.Status.DeletionPolicy, DeletionAtFirst(&cpa.Status))
}

// DeletionAtFirst is the policy where nobody has said anything yet.
func DeletionAtFirst(st *v1alpha1.CloudProviderAccountStatus) v1alpha1.DeletionPolicy {
	if st.CloudAccountID != "" {
		return v1alpha1.DeletionRelease
	}
	return v1alpha1.DeletionProtect
}
