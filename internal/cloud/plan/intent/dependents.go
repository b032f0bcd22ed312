package intent

// Dependents says what becomes of interfaces that are not ours to guard, and whose own groups name
// a group that a guarded interface gives up.
type Dependents string

// The answers. The zero value is RefuseDependents.
const (
	// RefuseDependents refuses the take-over that would cut their flows.
	RefuseDependents Dependents = ""
	// FollowDependents adds a twin to each such rule, which names our groups. The group with the
	// rule must have the tag cloud.TagFollow; without it the answer is RefuseDependents.
	FollowDependents Dependents = "Follow"
	// CutDependents goes on, and Result.Cuts lists what is lost.
	CutDependents Dependents = "Cut"
)

// DependentsRule is the answer of an account.
type DependentsRule struct {
	Default Dependents
	// Groups are other answers for the groups with the rules, by ID.
	Groups map[string]Dependents
}
