//go:build !agent

package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/eksnode/packer-plugin-eksnode/internal/ami/attest"
	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/show"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/surface"
	"github.com/eksnode/packer-plugin-eksnode/plan"
)

// verification holds the flags of `eksnode ami verify`.
type verification struct {
	disk      *auditedDisk
	file, key string
	maxAge    time.Duration
	full      bool
	output    string
}

func amiVerifyCommand() *cobra.Command {
	var v verification
	cmd := newCommand("verify SOURCE", named("a disk image, a snapshot or an AMI", 1), v.run)
	v.flags(cmd, awsapi.AttestPolicy)
	formatFlag(cmd, &v.output, "text", "json", "sarif", "junit")
	return cmd
}

func (v *verification) flags(cmd *cobra.Command, policy func(awsapi.Scope) (string, error)) {
	v.maxAge = 90 * 24 * time.Hour
	bind(cmd, targets{"key": &v.key, "statement": &v.file, "max-age": &v.maxAge, "full": &v.full})
	required(cmd, [2]string{"key", "name a "}, [2]string{"statement", "name the "})
	v.disk = sourceFlags(cmd, policy)
}

// verified is what `eksnode ami verify --output json` prints.
type verified struct {
	Source    string           `json:"source"`
	Statement attest.Statement `json:"statement"`
	Checks    []verifiedCheck  `json:"checks"`
}

// verifiedCheck is the result of a check: ok, failed, unknown or skipped.
type verifiedCheck struct {
	Check  string `json:"check"`
	Result string `json:"result"`
	Text   string `json:"text"`
}

// verifying is what the checks of a verification compare.
type verifying struct {
	verification
	cmd       *cobra.Command
	now       time.Time
	statement attest.Statement
	failure   error  // of the statement
	text      []byte // of the file
}

// errSkipped is the result of a check that is not for this source.
var errSkipped = errors.New("")

// unknownError is the result of a check that could not run.
type unknownError struct{ error }

// verifications are the checks of a verification. The first one decides whether the others
// have a statement.
var verifications = []struct {
	id    string
	check func(*verifying) (ok string, err error)
}{
	{"statement", func(v *verifying) (string, error) { return "signed by the key " + v.statement.Key, v.failure }},
	{"audit", (*verifying).audit},
	{"age", (*verifying).age},
	{"sbom", (*verifying).bill},
	{"origin", (*verifying).origin},
	{"tag", (*verifying).tag},
	{"content", (*verifying).content},
}

func (v *verifying) audit() (string, error) {
	s := v.statement
	if s.Result != attest.Passed {
		return "", fmt.Errorf("the audit has the result %s: %s", s.Result, s.Audit.Result)
	}
	text := fmt.Sprintf("passed, with eksnode %s and %s", s.Audit.Tool, show.Count(len(s.Audit.Rules), "rule"))
	if names := s.Audit.Exceptions(); len(names) > 0 {
		text += "; skipped: " + strings.Join(names, ", ")
	}
	return text, nil
}

func (v *verifying) bill() (string, error) {
	if !v.statement.Bill {
		return "", errors.New("no line has a bill of materials; audit and attest again")
	}
	return "lists " + show.Count(v.statement.Components, "component"), nil
}

func (v *verifying) age() (string, error) {
	at := v.statement.Verified
	switch age := v.now.Sub(at); {
	case age > v.maxAge:
		return "", fmt.Errorf("the audit is from %s, older than %s; audit and attest again", at.Format(time.RFC3339),
			show.Length(v.maxAge))
	case age < -5*time.Minute:
		return "", fmt.Errorf("the audit is from %s, in the future; check the clocks", at.Format(time.RFC3339))
	}
	return "audited " + at.Format(time.RFC3339), nil
}

// origin finds an AMI that was made from an instance, and its copies: they inherit
// watermarks, but their content is that of a node. A statement about such an AMI itself
// comes after the node.
func (v *verifying) origin() (string, error) {
	i := v.disk.volume.Image
	if i.ID == "" {
		return "", errSkipped
	}
	captured, err := v.disk.volume.AWS.Captured(v.cmd.Context(), i)
	switch {
	case err != nil:
		return "", unknownError{err}
	case captured.ID != "" && !slices.Contains(v.statement.Names, captured.Region+":"+captured.ID):
		return "", errors.New(fromInstance(i, captured))
	case captured.ID != "":
		return captured.ID + " was made from the instance " + captured.Instance + " before the audit", nil
	case i.Source != "":
		return "a copy of " + i.Source + " in " + i.SourceRegion, nil
	}
	return "no copy, and not made from an instance", nil
}

func fromInstance(i, captured awsapi.Image) string {
	what := "the AMI"
	if i.ID != captured.ID {
		what = "the AMI is a copy of " + captured.ID + ", which"
	}
	return what + " was made from the instance " + captured.Instance +
		", so its disk has what happened there; watermarks are inherited, statements are not"
}

func (v *verifying) tag() (string, error) {
	i := v.disk.volume.Image
	tag, found := i.Tags[awsapi.DigestTag]
	switch {
	case i.ID == "" || !found:
		return "", errSkipped
	case tag != v.statement.Digest:
		return "", fmt.Errorf("the tag %s of the AMI is %s, but the statement is about %s", awsapi.DigestTag, tag,
			v.statement.Digest)
	}
	return "the tag " + awsapi.DigestTag + " has the digest", nil
}

func (v *verifying) content() (string, error) {
	volume := v.disk.volume
	if v.disk.cloud != nil && !v.full {
		if slices.Contains(v.statement.Names, volume.AWS.Region+":"+volume.Snapshot) {
			return "the statement names " + volume.Snapshot, nil
		}
		return "", unknownError{fmt.Errorf("the statement does not name %s; --full compares the content",
			volume.Snapshot)}
	}
	path := v.disk.path
	if v.disk.cloud != nil {
		kept, err := v.disk.fetch(v.cmd)
		if err != nil {
			return "", unknownError{v.disk.explain("reading", err)}
		}
		defer kept.Close(v.disk.keep)
		path = kept.Path
	}
	digest, err := digestOf(v.cmd.Context(), path)
	if err == nil && digest != v.statement.Digest {
		err = fmt.Errorf("the digest of the content is %s, but the statement is about %s", digest, v.statement.Digest)
	}
	return "the content has the digest " + digest, err
}

func (v *verification) run(cmd *cobra.Command, args []string) error {
	r, _, err := v.verify(cmd, args[0])
	if err != nil {
		return err
	}
	return r.print(cmd, v.output)
}

func (v verification) verify(cmd *cobra.Command, source string) (r verified, all *verifying, err error) {
	ctx := cmd.Context()
	if v.maxAge <= 0 {
		return r, nil, fmt.Errorf("--max-age %s: an age is longer than 0", v.maxAge)
	}
	if err := v.disk.choose(cmd, source); err != nil {
		return r, nil, err
	}
	if !v.full {
		if err := onlyWith(cmd, "full", "cache-folder", "keep-disk"); err != nil {
			return r, nil, err
		}
	}
	text, err := surface.ReadFile(v.file)
	if err != nil {
		return r, nil, fmt.Errorf("reading the statement: %w", err)
	}
	key, err := attest.Open(ctx, v.key, connecting(v.disk.options()))
	if err != nil {
		return r, nil, fmt.Errorf("--key: %w", err)
	}
	all = &verifying{verification: v, cmd: cmd, now: time.Now(), text: text}
	if all.statement, all.failure = attest.Verify(ctx, text, key); all.failure == nil && v.disk.cloud != nil {
		if v.disk.volume, err = v.disk.cloud.Locate(ctx, v.disk.aws); err != nil {
			return r, nil, err
		}
	}
	return all.check(source), all, nil
}

func (v *verifying) check(source string) verified {
	r := verified{Source: source, Statement: v.statement, Checks: []verifiedCheck{}}
	for _, c := range verifications {
		ok, err := "", error(unknownError{errors.New("not checked: the statement is not valid")})
		if c.id == "statement" || v.failure == nil {
			ok, err = c.check(v)
		}
		switch {
		case err == nil:
			r.Checks = append(r.Checks, verifiedCheck{c.id, "ok", ok})
		case errors.Is(err, errSkipped):
		case errors.As(err, new(unknownError)):
			r.Checks = append(r.Checks, verifiedCheck{c.id, "unknown", err.Error()})
		default:
			r.Checks = append(r.Checks, verifiedCheck{c.id, "failed", err.Error()})
		}
	}
	return r
}

func (r verified) cases() (list []plan.Case) {
	for _, c := range r.Checks {
		one := plan.Case{ID: c.Check, About: plan.About{Page: "design/attestation.md"}, Text: c.Text}
		switch c.Result {
		case "failed":
			one.Level = plan.Fails
		case "unknown":
			one.Error = c.Text
		}
		list = append(list, one)
	}
	return list
}

func (r verified) print(cmd *cobra.Command, output string) error {
	return judge("ami verify", r.cases(), r, func(p *printer) {
		for _, c := range r.Checks {
			p.line("%-8s %-10s %s", c.Result, c.Check, line(c.Text))
		}
	}).print(cmd, output)
}
