package plan

// Compute plans one round for an account.
func Compute(in Input, lower Lowerer) *Result {
	return &Result{Plan: Plan{Account: in.Account}}
}
