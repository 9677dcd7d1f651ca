package amiimport

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/eksnode/packer-plugin-eksnode/internal/ami/attest"
	"github.com/eksnode/packer-plugin-eksnode/internal/ami/snapshot"
	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi"
	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi/awsnames"
	"github.com/eksnode/packer-plugin-eksnode/internal/disk/diskaudit"
	"github.com/eksnode/packer-plugin-eksnode/internal/image/manifest"
	"github.com/eksnode/packer-plugin-eksnode/internal/packercheck"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/surface"
	"github.com/eksnode/packer-plugin-eksnode/plan"
	"github.com/eksnode/packer-plugin-eksnode/scrub"
)

// Signing are the options of a statement about an AMI.
type Signing struct {
	// File for a signed statement about the AMI and its copies, with `statement_key`.
	Statement string `mapstructure:"statement"`
	// Key that signs the statement: a file with a key in PEM, or the ARN or alias of a KMS
	// key, such as `alias/images`.
	StatementKey string `mapstructure:"statement_key"`
	// Watermark to attach to the AMI and its copies, such as `eksnode/audited`, after an
	// audit without findings. Needs `statement`.
	Watermark string `mapstructure:"watermark"`
	// Packer templates that the statement records, without comments and secrets. Needs
	// `statement`.
	Templates []string `mapstructure:"templates"`
}

// Validate returns the faults of the fields, joined.
func (s Signing) Validate() error {
	var f surface.Faults
	s.check(&f)
	return f.Err()
}

func (s Signing) check(f *surface.Faults) {
	f.When((s.Statement == "") != (s.StatementKey == ""), "{statement} and {statement_key} belong together")
	f.When(s.Statement == "" && s.Watermark != "", "{watermark} has no effect without {statement}")
	f.When(s.Statement == "" && len(s.Templates) > 0, "{templates} has no effect without {statement}")
	if s.Watermark != "" {
		f.Check("watermark", awsnames.ImageName(s.Watermark))
	}
}

// checkStatement checks the fields of the statement and the watermark.
func (s Spec) checkStatement(f *surface.Faults) {
	s.Signing.check(f)
	f.When(s.Statement != "" && s.Audit == string(scrub.AuditOff), "{statement} has no effect without an audit")
	if s.Watermark == "" {
		return
	}
	f.When(s.Audit == string(scrub.AuditWarns), "{watermark} needs %s",
		surface.Name("audit").Is(string(scrub.AuditFails)))
	f.When(len(s.Groups) > 0, "{watermark}: EC2 attaches no watermarks to public AMIs")
}

// signer has what a statement needs, before there is an AMI.
type signer struct {
	Signing
	key       attest.Key
	templates map[string]string
}

// open opens the key of the statement, reads the templates, and checks that the file can be
// written. It returns nil without a statement.
func (s Signing) open(ctx context.Context, a *awsapi.AWS) (*signer, error) {
	if s.StatementKey == "" {
		return nil, nil
	}
	key, err := attest.OpenSigner(ctx, s.StatementKey, func(context.Context) (*awsapi.AWS, error) { return a, nil })
	if err != nil {
		return nil, surface.Errorf("{statement_key}: %w", err)
	}
	templates, err := packercheck.Record(s.Templates)
	if err != nil {
		return nil, surface.Errorf("{templates}: %w", err)
	}
	if err := surface.MayCreate(s.Statement); err != nil {
		return nil, surface.Errorf("{statement}: %w", err)
	}
	return &signer{s, key, templates}, nil
}

// sign signs the statement about an AMI and its copies. Then it attaches the watermark, if
// the statement says that the audit passed.
func (s *signer) sign(ctx context.Context, a *awsapi.AWS, made []awsapi.Image, audit plan.Report,
	m manifest.Manifest) error {
	var names []string
	for _, i := range made {
		for _, id := range append([]string{i.ID}, i.Snapshots...) {
			names = append(names, i.Region+":"+id)
		}
	}
	text, err := attest.Evidence{Names: names, Report: audit, Manifest: m, Templates: s.templates}.Write(ctx, s.key,
		s.Statement)
	if err != nil || s.Watermark == "" {
		return err
	}
	if v, err := attest.Verify(ctx, text, s.key); err != nil || v.Result != attest.Passed {
		return errors.Join(err, surface.Errorf("{watermark}: the statement does not say that the audit passed"))
	}
	for _, i := range made {
		if err := a.In(i.Region).Approve(ctx, i, text, s.Watermark, "imported by eksnode"); err != nil {
			return err
		}
	}
	return nil
}

// Attestation signs a statement about AMIs that another builder made.
type Attestation struct {
	Signing
	// SkipRules are rules that the audit skips.
	SkipRules []string
	// Cache gets the disk of the AMI, which is removed at the end.
	Cache snapshot.Cache
}

// Run audits the disk of an AMI and signs a statement about the AMI and its copies, which
// the images name. An audit with findings is an AuditError, and signs nothing.
func (t Attestation) Run(ctx context.Context, a *awsapi.AWS, images []snapshot.Named) (*plan.Report, error) {
	if err := diskaudit.Ready(); err != nil {
		return nil, surface.Errorf("{statement}: %w", err)
	}
	s, err := t.open(ctx, a)
	if err != nil {
		return nil, err
	}
	made := make([]awsapi.Image, len(images))
	for n, i := range images {
		if made[n], err = a.In(i.Region).Image(ctx, i.ID); err != nil {
			return nil, err
		}
	}
	// The builder made one AMI, and copied it.
	first := max(0, slices.IndexFunc(made, func(i awsapi.Image) bool { return i.Source == "" }))
	made[0], made[first] = made[first], made[0]
	for _, i := range made[1:] {
		if i.Source != made[0].ID && (i.Source == "" || i.Source != made[0].Source) {
			return nil, fmt.Errorf("%s in %s is no copy of %s in %s, so one statement cannot be about both", i.ID,
				i.Region,
				made[0].ID, made[0].Region)
		}
	}
	volume, err := snapshot.Named{ID: made[0].ID}.Find(ctx, a.In(made[0].Region))
	if err != nil {
		return nil, err
	}
	kept, err := t.Cache.Get(ctx, volume.AWS, volume.Snapshot)
	if err != nil {
		return nil, fmt.Errorf("auditing %s: %w", volume, err)
	}
	var m manifest.Manifest
	report, err := diskaudit.Audit{Spec: scrub.Spec{Skip: t.SkipRules}, Manifest: &m, Whole: true}.File(ctx, kept.Path)
	if err = errors.Join(err, kept.Close(false)); err != nil {
		return nil, fmt.Errorf("auditing %s: %w", volume, err)
	}
	report.Machine.Disk, report.Machine.AMI, report.Machine.Region = "", made[0].ID, made[0].Region
	if report.Result != plan.Clean {
		return &report, &AuditError{report}
	}
	return &report, s.sign(ctx, a, made, report, m)
}
