package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// NamespaceGrant names namespaces: those in Names, and those whose labels Selector selects. An
// empty grant names none.
type NamespaceGrant struct {
	// Names are namespaces by name.
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=63
	// +kubebuilder:validation:items:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	// +listType=set
	// +optional
	Names []string `json:"names,omitempty"`
	// Selector selects namespaces by their labels; an empty one selects all. A user who may label a
	// namespace can put it among the selected ones, so use a label that only trusted users may set.
	// +optional
	Selector *metav1.LabelSelector `json:"selector,omitempty"`
}

// UserTags says what becomes of the tags that people give to VirtualMachine objects.
// +kubebuilder:validation:Enum=Separate;Merge
type UserTags string

// The ways to make labels of spec.tags of a VirtualMachine.
const (
	// UserTagsSeparate, the default, makes labels of their own, with the prefix LabelUserTagPrefix.
	UserTagsSeparate UserTags = "Separate"
	// UserTagsMerge puts them among the tags of the cloud, over which they take precedence. A user
	// who may write a VirtualMachine then decides what the labels of tags say.
	UserTagsMerge UserTags = "Merge"
)

// LabelUserTagPrefix (VirtualMachine, ExternalEntity, ExternalNode) followed by the key of a tag in
// spec.tags of a VirtualMachine holds the value of the tag, unless the account says UserTagsMerge.
// Users that may update the VirtualMachine decide it.
const LabelUserTagPrefix = "nephele.io/user-tag-"

// AnnotationPrefix is the prefix of the annotations that mean something to Nephele.
const AnnotationPrefix = "nephele.io/"

// LabelTierUse (Tier) with the value TierUseRequired says that the authors of policies in the tier
// need the verb VerbUse on it.
const (
	LabelTierUse    = "nephele.io/use"
	TierUseRequired = "required"
)

// Verbs that rules of RBAC give beside the verbs of Kubernetes.
const (
	// VerbUse on a CloudProviderAccount is needed for a selector of it, on a Tier for a policy in
	// it if the tier asks for that.
	VerbUse = "use"
	// VerbBreakGlass on a VirtualMachine or CloudEntitySelector is needed to set, change or remove
	// AnnotationBreakGlass or AnnotationBreakGlassUntil on it.
	VerbBreakGlass = "breakglass"
)

// ConditionHeeded (selector, virtual machine) is False while a mode or break-glass asked for there
// has no effect because the namespace has no say in that; else it is absent.
const ConditionHeeded = "Heeded"

// ConditionAuthorsChecked (account) is False while the cluster lacks the policies that check the
// rights of authors of accounts, selectors and the like; else it is absent.
const ConditionAuthorsChecked = "AuthorsChecked"

// Reasons of conditions about grants.
const (
	// ReasonNotGranted: a right is missing. The message names it and says how to give it.
	ReasonNotGranted = "NotGranted"
	// ReasonSecretUnusable: a Secret in another namespace than its account's does not give
	// credentials. Why is not said, because that would tell what Secrets there are.
	ReasonSecretUnusable = "SecretUnusable"
	// ReasonPoliciesMissing: not all policies of config/grants are installed.
	ReasonPoliciesMissing = "PoliciesMissing"
)
