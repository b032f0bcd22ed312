package flows

// maxProblems is how many problems of one file a report keeps; the rest is counted.
const maxProblems = 5

// Report says what was read of one file of a flow log.
type Report struct {
	// Records, NoData and Skipped count the lines by what they tell: traffic, that there was none,
	// and that traffic was lost to the log.
	Records, NoData, Skipped int
	// Bad counts the lines that were left out, and Problems says why for the first of them.
	Bad      int
	Problems []string
	// Lacks are fields that the log does not have and that would make answers exact, each with what
	// is missed.
	Lacks []string
}

// Leave counts a line that is left out, with its place in the file and the reason.
func (r *Report) Leave(place string, err error) {
	r.Bad++
	if len(r.Problems) < maxProblems {
		r.Problems = append(r.Problems, place+": "+err.Error())
	}
}

// Sink takes what a reader of flow logs read. What it gets is valid during the call only. An error
// from it ends the reading and is returned as it is.
type Sink struct {
	Record func(*Record) error
	Gap    func(*Gap) error
}
