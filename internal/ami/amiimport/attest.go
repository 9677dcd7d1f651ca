package amiimport

import (
	"context"
	"errors"
	"os"
	"path/filepath"

	"github.com/eksnode/packer-plugin-eksnode/internal/ami/attest"
	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi"
	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi/awsnames"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/surface"
	"github.com/eksnode/packer-plugin-eksnode/scrub"
)

// checkStatement checks the fields of the statement and the watermark.
func (s Spec) checkStatement(f *faults) {
	f.when((s.Statement == "") != (s.StatementKey == ""), "%s belong together",
		surface.Name("statement and statement_key"))
	f.when(s.Statement != "" && s.Audit == string(scrub.AuditOff), "%s has no effect without an audit",
		surface.Name("statement"))
	if s.Watermark == "" {
		return
	}
	f.check("watermark", awsnames.ImageName(s.Watermark))
	f.when(s.Statement == "", "%s has no effect without %s", surface.Name("watermark"), surface.Name("statement"))
	f.when(s.Audit == string(scrub.AuditWarns), "%s needs %s", surface.Name("watermark"),
		surface.Name("audit").Is(string(scrub.AuditFails)))
	f.when(len(s.Groups) > 0, "%s: EC2 attaches no watermarks to public AMIs", surface.Name("watermark"))
}

// openKey opens the key of the statement, and checks that its file can be written.
func (r *run) openKey(ctx context.Context) (err error) {
	if r.Spec.StatementKey == "" {
		return nil
	}
	r.key, err = attest.OpenSigner(ctx, r.Spec.StatementKey,
		func(context.Context) (*awsapi.AWS, error) { return r.aws, nil })
	if err != nil {
		return surface.Errorf("%s: %w", surface.Name("statement_key"), err)
	}
	f, err := os.CreateTemp(filepath.Dir(r.Spec.Statement), ".eksnode-")
	if err != nil {
		return surface.Errorf("%s: the folder cannot be written: %w", surface.Name("statement"), err)
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}

// attest signs the statement about the AMI and its copies. Then it attaches the watermark,
// if the statement says that the audit passed.
func (r *run) attest(ctx context.Context) error {
	if r.key == nil {
		return nil
	}
	made := append([]awsapi.Image{r.result.Image}, r.result.Copies...)
	var names []string
	for _, i := range made {
		for _, id := range append([]string{i.ID}, i.Snapshots...) {
			names = append(names, i.Region+":"+id)
		}
	}
	text, err := attest.Evidence{Names: names, Report: *r.result.Audit, Manifest: r.result.Manifest}.Write(ctx, r.key,
		r.Spec.Statement)
	if err != nil || r.Spec.Watermark == "" {
		return err
	}
	if s, err := attest.Verify(ctx, text, r.key); err != nil || s.Result != attest.Passed {
		return errors.Join(err, surface.Errorf("%s: the statement does not say that the audit passed",
			surface.Name("watermark")))
	}
	for _, i := range made {
		if err := r.aws.In(i.Region).Approve(ctx, i, text, r.Spec.Watermark, "imported by eksnode"); err != nil {
			return err
		}
	}
	return nil
}
