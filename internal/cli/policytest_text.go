package cli

import (
	"encoding/xml"
	"fmt"
	"io"
	"strings"

	"github.com/nephele-io/nephele/api/analysis/v1alpha1"
	"github.com/nephele-io/nephele/internal/cli/show"
	"github.com/nephele-io/nephele/internal/cli/terminal"
	"github.com/nephele-io/nephele/internal/expect"
	"github.com/nephele-io/nephele/internal/explain"
	"github.com/nephele-io/nephele/internal/reach"
)

// The XML that build servers read.
type (
	junitSuites struct {
		XMLName  xml.Name     `xml:"testsuites"`
		Tests    int          `xml:"tests,attr"`
		Failures int          `xml:"failures,attr"`
		Errors   int          `xml:"errors,attr"`
		Suites   []junitSuite `xml:"testsuite"`
	}
	junitSuite struct {
		Name     string      `xml:"name,attr"`
		Tests    int         `xml:"tests,attr"`
		Failures int         `xml:"failures,attr"`
		Errors   int         `xml:"errors,attr"`
		Cases    []junitCase `xml:"testcase"`
	}
	junitCase struct {
		Name    string        `xml:"name,attr"`
		Class   string        `xml:"classname,attr"`
		File    string        `xml:"file,attr,omitempty"`
		Failure *junitFailure `xml:"failure,omitempty"`
		Error   *junitFailure `xml:"error,omitempty"`
	}
	junitFailure struct {
		Message string `xml:"message,attr"`
		Text    string `xml:",chardata"`
	}
)

// printJUnit prints the report for build servers: a suite for each test, a case for each
// expectation.
func printJUnit(out io.Writer, r *testReport) error {
	all := junitSuites{}
	all.Tests, all.Failures, all.Errors = r.counts()
	for _, t := range r.results {
		one := testReport{results: []placedResult{t}}
		s := junitSuite{Name: t.Name}
		s.Tests, s.Failures, s.Errors = one.counts()
		for i := range t.Flows {
			f := &t.Flows[i]
			c := junitCase{Name: terminal.Printable(show.Expectation(f)), Class: t.Name, File: t.at(fmt.Sprintf("spec.flows[%d]", f.Index)).String()}
			if !f.Passed() {
				lines := show.WhyNot(f)
				for k := range lines {
					lines[k] = terminal.Printable(lines[k])
				}
				failure := &junitFailure{Message: lines[0], Text: strings.Join(lines, "\n")}
				if f.Err != nil {
					c.Error = failure
				} else {
					c.Failure = failure
				}
			}
			s.Cases = append(s.Cases, c)
		}
		all.Suites = append(all.Suites, s)
	}
	if _, err := io.WriteString(out, xml.Header); err != nil {
		return err
	}
	enc := xml.NewEncoder(out)
	enc.Indent("", "  ")
	if err := enc.Encode(all); err != nil {
		return fmt.Errorf("writing XML: %w", err)
	}
	_, err := io.WriteString(out, "\n")
	return err
}

// The report as programs read it, which docs/reference/answers.md documents.
type (
	// testAnswer is what was expected of the policies, and what they do.
	testAnswer struct {
		Expectations int `json:"expectations"`
		// NotMet is how many expectations the policies do not meet.
		NotMet int `json:"notMet"`
		// Senseless is how many expectations are about nothing, or contradict the estate.
		Senseless int              `json:"senseless"`
		Tests     []testAnswerTest `json:"tests"`
		Rules     []testAnswerRule `json:"rules"`
	}
	// testAnswerTest is one PolicyTest.
	testAnswerTest struct {
		Name  string           `json:"name"`
		Flows []testAnswerFlow `json:"flows"`
	}
	// testAnswerFlow is one entry of spec.flows.
	testAnswerFlow struct {
		Name   string             `json:"name,omitempty"`
		Expect expect.Expectation `json:"expect"`
		Met    bool               `json:"met"`
		// Place is the file, the line and the field of the expectation.
		Place string `json:"place"`
		// Error is why it is not met where no flow shows it.
		Error string `json:"error,omitempty"`
		// Wrong are the flows with another verdict.
		Wrong []v1alpha1.ReachRow `json:"wrong,omitempty"`
	}
	// testAnswerRule is a rule of the policies.
	testAnswerRule struct {
		Rule v1alpha1.Rule `json:"rule"`
		// Tested is whether an expectation is about a flow that it decides.
		Tested bool `json:"tested"`
		// Use is whether it decides anything, as "nephele rules" says it.
		Use reach.Use `json:"use"`
	}
)

func (r *testReport) json() testAnswer {
	out := testAnswer{Rules: []testAnswerRule{}}
	out.Expectations, out.NotMet, out.Senseless = r.counts()
	for _, t := range r.results {
		one := testAnswerTest{Name: t.Name}
		for i := range t.Flows {
			f := &t.Flows[i]
			row := testAnswerFlow{Name: f.Name, Expect: f.Expect, Met: f.Passed(), Place: t.at(fmt.Sprintf("spec.flows[%d]", f.Index)).String()}
			if row.Wrong = show.WrongRows(f); !f.Passed() && len(row.Wrong) == 0 {
				row.Error = strings.Join(show.WhyNot(f), "; ")
			}
			one.Flows = append(one.Flows, row)
		}
		out.Tests = append(out.Tests, one)
	}
	for _, c := range r.rules {
		out.Rules = append(out.Rules, testAnswerRule{explain.RuleOf(c.RuleRef), c.Tested, c.Use})
	}
	return out
}
