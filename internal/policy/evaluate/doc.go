// Package evaluate tells what computed policies mean for one flow of packets: which rules decide at
// each end, and in which order rules are asked (CompareRules). An Evaluator reads a Listing as an
// enforcer does. It never changes once made, and is safe for concurrent use.
package evaluate
