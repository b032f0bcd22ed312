package v1alpha1

// DeletionPolicy says whether an account may be deleted while virtual machines are guarded through
// it.
// +kubebuilder:validation:Enum=Protect;Release
type DeletionPolicy string

const (
	// DeletionProtect: the account, the selectors of it and their namespaces cannot be deleted
	// while virtual machines are guarded through them, but for those with the annotation
	// AnnotationAllowDeletion.
	DeletionProtect DeletionPolicy = "Protect"
	// DeletionRelease: deleting one of them gives the virtual machines their former security groups
	// back.
	DeletionRelease DeletionPolicy = "Release"
)

// AnnotationAllowDeletion with the value AllowDeletion on a CloudProviderAccount, a
// CloudEntitySelector or a Namespace lets it be deleted although virtual machines are guarded
// through it.
const AnnotationAllowDeletion = "nephele.io/allow-deletion"

// AllowDeletion is the only value of AnnotationAllowDeletion that counts.
const AllowDeletion = "true"

// ConditionDeletionProtected (account): False while the account may be deleted only because it is
// older than DeletionPolicy, and says nothing.
const ConditionDeletionProtected = "DeletionProtected"

// ReasonOlderAccount: it is like that because it was like that when the account was first read.
const ReasonOlderAccount = "OlderAccount"
