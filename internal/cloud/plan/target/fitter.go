package target

import "github.com/nephele-io/nephele/internal/cloud/plan/intent"

// fitter finds the form in which what a class must allow fits into the quotas: which peers its
// rules name by group, and which by address. It reads the design, and decides nothing about it: who
// is left out if no form fits is for Target to say.
type fitter struct {
	*intent.Region
	*design
	lower Lowerer
	memo  *memo
}
