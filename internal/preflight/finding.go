// Package preflight says, before anything is started, why a node would not join
// its cluster: it looks at the cluster, the image, the launch template or
// instance, the role and the network together. It changes nothing.
package preflight

import (
	"errors"
	"fmt"

	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi"
)

// Verdict is what a check comes to.
type Verdict string

// The verdicts.
const (
	OK   Verdict = "OK"
	Fail Verdict = "FAIL"
	// Warn is for what works in some setups, which cannot be told from here.
	Warn Verdict = "WARN"
	// Unknown means that the check could not look.
	Unknown Verdict = "UNKNOWN"
)

// Finding is what a check found.
type Finding struct {
	// Check is the check's ID, Question what it asks.
	Check    string  `json:"check"`
	Question string  `json:"question"`
	Verdict  Verdict `json:"verdict"`
	// Evidence is what was seen.
	Evidence string `json:"evidence"`
	// Remedy is a command, or empty where all is well.
	Remedy string `json:"remedy,omitempty"`
}

// Report is a preflight.
type Report struct {
	Cluster string `json:"cluster"`
	// Target is the node's side: an instance, a launch template, an image.
	Target   string    `json:"target"`
	Findings []Finding `json:"findings"`
	// LeftOut are the checks that the target has nothing for.
	LeftOut []string `json:"leftOut,omitempty"`
}

// Count counts the findings of a verdict.
func (r Report) Count(v Verdict) int {
	n := 0
	for _, f := range r.Findings {
		if f.Verdict == v {
			n++
		}
	}
	return n
}

// ExitCode is 1 when a check failed, else 2 when one could not look, else 0.
func (r Report) ExitCode() int {
	switch {
	case r.Count(Fail) > 0:
		return 1
	case r.Count(Unknown) > 0:
		return 2
	default:
		return 0
	}
}

// result is a check's answer.
type result struct {
	verdict          Verdict
	evidence, remedy string
}

func good(format string, args ...any) result {
	return result{verdict: OK, evidence: fmt.Sprintf(format, args...)}
}

func bad(remedy, format string, args ...any) result {
	return result{Fail, fmt.Sprintf(format, args...), remedy}
}

func maybe(remedy, format string, args ...any) result {
	return result{Warn, fmt.Sprintf(format, args...), remedy}
}

// unseen is the answer when what the check needs could not be read. The remedy
// looks again.
func (f *facts) unseen(err error) result {
	r := result{verdict: Unknown, evidence: err.Error(), remedy: f.target.command("")}
	var denied *awsapi.DeniedError
	switch {
	case errors.As(err, &denied):
		r.remedy = "eksnode preflight --policy" // what whoever asks should have
	case awsapi.IsNotFound(err):
		// Mostly it is there, but in another region or account.
		r.remedy = "aws configure list && aws sts get-caller-identity"
	}
	return r
}
