// Package preflight finds reasons why a node would not join its cluster before the
// node starts. It checks the cluster, the image, the launch template or instance,
// the role and the network together. It changes nothing.
package preflight

import (
	"errors"
	"fmt"

	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi"
)

// Verdict is the result of a check.
type Verdict string

// The verdicts.
const (
	OK   Verdict = "OK"
	Fail Verdict = "FAIL"
	// Warn means that the setup may or may not work; preflight cannot decide.
	Warn Verdict = "WARN"
	// Unknown means that the check could not run.
	Unknown Verdict = "UNKNOWN"

	// notHere is for checks of another kind of target. withoutRole is for checks of
	// a role when the target names none. Reports have neither.
	notHere, withoutRole Verdict = "-", "?"
)

// Finding is the result of one check.
type Finding struct {
	// Check is the check's ID, and Question its question.
	Check    string  `json:"check"`
	Question string  `json:"question"`
	Verdict  Verdict `json:"verdict"`
	// Evidence is what the check found.
	Evidence string `json:"evidence"`
	// Remedy is a command, or empty when the check passed.
	Remedy string `json:"remedy,omitempty"`
	// Unchecked are further checks that could not run for the same reason.
	Unchecked []string `json:"unchecked,omitempty"`
}

// Report is the result of a preflight.
type Report struct {
	Cluster string `json:"cluster"`
	// Target is what was checked, such as an instance or a launch template.
	Target   string    `json:"target"`
	Findings []Finding `json:"findings"`
	// LeftOut are the checks that do not apply to the target.
	LeftOut []string `json:"leftOut,omitempty"`
	// NeedRole are the checks that need a role, when the target names none.
	NeedRole []string `json:"needRole,omitempty"`
}

// Unchecked counts the checks that are no findings of their own, because they
// could not run for the reason of another.
func (r Report) Unchecked() int {
	n := 0
	for _, f := range r.Findings {
		n += len(f.Unchecked)
	}
	return n
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

// ExitCode is 1 when a check failed, 2 when no check failed but one could not run,
// and otherwise 0.
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

// result is the verdict of a check with its evidence.
type result struct {
	verdict          Verdict
	evidence, remedy string
	// cause identifies the reason why a check could not run, such as a missing
	// permission. Checks with the same cause are one finding.
	cause string
}

func good(format string, args ...any) result {
	return result{verdict: OK, evidence: fmt.Sprintf(format, args...)}
}

func bad(remedy, format string, args ...any) result {
	return result{verdict: Fail, evidence: fmt.Sprintf(format, args...), remedy: remedy}
}

func maybe(remedy, format string, args ...any) result {
	return result{verdict: Warn, evidence: fmt.Sprintf(format, args...), remedy: remedy}
}

// unseen is the result when the check's data could not be read. The remedy runs the
// preflight again.
func (f *facts) unseen(err error) result {
	r := result{verdict: Unknown, evidence: err.Error(), remedy: f.target.command(""), cause: causeOf(err)}
	var denied *awsapi.DeniedError
	switch {
	case errors.As(err, &denied):
		r.remedy = "eksnode preflight --policy" // the policy that the caller needs
	case awsapi.IsNotFound(err):
		// The resource usually exists in another region or account.
		r.remedy = "aws configure list && aws sts get-caller-identity"
	}
	return r
}

// because makes a result one finding with other results of the same cause.
func (r result) because(cause string) result {
	r.cause = cause
	return r
}

// causeOf identifies the reason of an error. Calls for different resources fail for
// the same reason when they need the same permission or the same host.
func causeOf(err error) string {
	var denied *awsapi.DeniedError
	var unreached *awsapi.UnreachedError
	switch {
	case errors.As(err, &denied):
		return "permission " + denied.Permission
	case errors.As(err, &unreached):
		return "host " + unreached.Host
	}
	return err.Error()
}

// collected puts the results of checks together. The first check of a cause, or the
// one that fails, names the others.
type collected struct {
	findings []Finding
	first    map[string]int // index of the first finding of a cause
}

func (c *collected) add(check Check, said result) {
	one := Finding{Check: check.ID, Question: check.Question, Verdict: said.verdict, Evidence: said.evidence, Remedy: said.remedy}
	i, known := c.first[said.cause]
	switch {
	case !known || said.cause == "":
		c.first[said.cause] = len(c.findings)
		c.findings = append(c.findings, one)
	case said.verdict == Fail && c.findings[i].Verdict == Unknown: // this check explains the others
		one.Unchecked = append([]string{c.findings[i].Check}, c.findings[i].Unchecked...)
		c.findings[i] = one
	default:
		c.findings[i].Unchecked = append(c.findings[i].Unchecked, check.ID)
	}
}
