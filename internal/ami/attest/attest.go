// Package attest writes and verifies signed statements about the content of a disk:
// in-toto statements in DSSE envelopes, one on each line of a file. They are SLSA's
// provenance, the verification summary of an audit, and the bill of materials.
package attest

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	provenance "github.com/in-toto/attestation/go/predicates/provenance/v1"
	vsa "github.com/in-toto/attestation/go/predicates/vsa/v1"
	intoto "github.com/in-toto/attestation/go/v1"
	"github.com/secure-systems-lab/go-securesystemslib/dsse"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/eksnode/packer-plugin-eksnode/internal/image/manifest"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/show"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/surface"
	"github.com/eksnode/packer-plugin-eksnode/internal/version"
	"github.com/eksnode/packer-plugin-eksnode/plan"
)

const (
	payloadType    = "application/vnd.in-toto+json"
	provenanceType = "https://slsa.dev/provenance/v1"
	summaryType    = "https://slsa.dev/verification_summary/v1"
	billType       = "https://cyclonedx.org/bom"
	// auditField has the audit in a summary. SLSA names extensions after their maker.
	auditField = "eksnode_audit"
	// level is the verified level of a disk whose audit found nothing.
	level = "EKSNODE_AUDITED"
)

// The results of a verification summary.
const (
	Passed = "PASSED"
	Failed = "FAILED"
)

// Evidence is what is known about a disk.
type Evidence struct {
	// Names are those of the file, or of the AMI and the snapshot with their region.
	Names []string
	// Report is that of the audit. Its machine has the digest.
	Report plan.Report
	// Manifest lists everything in the image. Without a schema, the image has no manifest.
	Manifest manifest.Manifest
	// Materials are what the image was made from, such as the base image.
	Materials []Material
	// Templates are the texts of Packer templates by the names of their files, without
	// secrets.
	Templates map[string]string
}

// Material is something that an image was made from.
type Material struct {
	URI string
	// Algorithm and Digest are such as sha256 and hexadecimal digits.
	Algorithm, Digest string
}

// ParseMaterial reads URI=ALGORITHM:DIGEST.
func ParseMaterial(text string) (Material, error) {
	at := strings.LastIndex(text, "=")
	algorithm, digest, found := strings.Cut(text[at+1:], ":")
	m := Material{text[:max(at, 0)], algorithm, digest}
	d := &intoto.ResourceDescriptor{Uri: m.URI, Digest: map[string]string{algorithm: digest}}
	if at < 1 || !found || d.Validate() != nil {
		return m, fmt.Errorf("%q is not a material such as https://example.com/base.qcow2=sha256:DIGEST", text)
	}
	return m, nil
}

// Audit is the audit in a summary.
type Audit struct {
	Tool   string       `json:"tool"`
	Result plan.Result  `json:"result"`
	Rules  []plan.Check `json:"rules"`
}

// Exceptions are the rules that were skipped.
func (a Audit) Exceptions() []string {
	var names []string
	for _, c := range a.Rules {
		if c.Outcome == plan.LeftOut {
			names = append(names, c.Item)
		}
	}
	return names
}

// Write signs the statements, and writes them to a file.
func (e Evidence) Write(ctx context.Context, key Key, file string) ([]byte, error) {
	text, err := e.Sign(ctx, key)
	if err != nil {
		return nil, err
	}
	if err := surface.Replace(file, text, nil); err != nil {
		return nil, fmt.Errorf("writing the statement: %w", err)
	}
	return text, nil
}

// Sign writes the statements. An image without a manifest has no provenance.
func (e Evidence) Sign(ctx context.Context, key Key) ([]byte, error) {
	sum, found := strings.CutPrefix(e.Report.Machine.Digest, "sha256:")
	if !found {
		return nil, errors.New("signing a statement: the audit has no digest of the disk")
	}
	signer, err := dsse.NewEnvelopeSigner(key)
	if err != nil {
		return nil, fmt.Errorf("signing a statement: %w", err)
	}
	var out bytes.Buffer
	for _, one := range []func() (string, *structpb.Struct, error){e.provenance, e.summary, e.bill} {
		kind, predicate, err := one()
		if err == nil && predicate == nil {
			continue
		}
		s := &intoto.Statement{Type: intoto.StatementTypeUri, PredicateType: kind, Predicate: predicate}
		for _, name := range e.Names {
			s.Subject = append(s.Subject, &intoto.ResourceDescriptor{Name: name,
				Digest: map[string]string{"sha256": sum}})
		}
		if err == nil {
			err = s.Validate()
		}
		var body []byte
		if err == nil {
			body, err = protojson.Marshal(s)
		}
		if err != nil {
			return nil, fmt.Errorf("writing a statement: %w", err)
		}
		envelope, err := signer.SignPayload(ctx, payloadType, body)
		if err != nil {
			return nil, fmt.Errorf("signing a statement: %w", err)
		}
		if err := json.NewEncoder(&out).Encode(envelope); err != nil {
			return nil, fmt.Errorf("writing a statement: %w", err)
		}
	}
	return out.Bytes(), nil
}

func (e Evidence) provenance() (string, *structpb.Struct, error) {
	m := e.Manifest
	if m.Schema == "" {
		return provenanceType, nil, nil
	}
	fields := map[string]any{
		"distro": m.Distro, "distro_version": m.DistroVersion, "architecture": m.Arch,
		"kubernetes_version": m.KubernetesVersion,
	}
	if len(e.Templates) > 0 {
		templates := map[string]any{}
		for name, text := range e.Templates {
			templates[name] = text
		}
		fields["templates"] = templates
	}
	parameters, err := structpb.NewStruct(fields)
	if err != nil {
		return "", nil, err
	}
	p := &provenance.Provenance{
		BuildDefinition: &provenance.BuildDefinition{
			BuildType: version.Page("design/attestation.md"), ExternalParameters: parameters,
		},
		RunDetails: &provenance.RunDetails{
			Builder: &provenance.Builder{Id: version.Repository, Version: map[string]string{"eksnode": m.Tool}},
		},
	}
	add := func(d *intoto.ResourceDescriptor) {
		p.BuildDefinition.ResolvedDependencies = append(p.BuildDefinition.ResolvedDependencies, d)
	}
	for _, from := range e.Materials {
		add(&intoto.ResourceDescriptor{Uri: from.URI, Digest: map[string]string{from.Algorithm: from.Digest}})
	}
	for _, c := range m.Components() {
		d := &intoto.ResourceDescriptor{Name: c.Name, Uri: c.PackageURL}
		if c.Hashes != nil {
			d.Digest = map[string]string{"sha256": (*c.Hashes)[0].Value}
		}
		if d.Validate() != nil { // the manifest may be anyone's
			d.Digest = nil
		}
		add(d)
	}
	if err := p.Validate(); err != nil {
		return "", nil, err
	}
	predicate, err := asStruct(p)
	return provenanceType, predicate, err
}

func (e Evidence) bill() (string, *structpb.Struct, error) {
	text, err := Describe(e.Manifest, e.Report.Machine).SBOM()
	if err != nil {
		return "", nil, err
	}
	predicate := &structpb.Struct{}
	return billType, predicate, protojson.Unmarshal(text, predicate)
}

// Describe adds what the audit of a machine found to a manifest that lacks it.
func Describe(m manifest.Manifest, of plan.Machine) *manifest.Manifest {
	m.Distro, m.DistroVersion = cmp.Or(m.Distro, of.Distro), cmp.Or(m.DistroVersion, of.Version)
	m.Arch, m.Tool = cmp.Or(m.Arch, of.Arch), cmp.Or(m.Tool, version.String())
	return &m
}

func (e Evidence) summary() (string, *structpb.Struct, error) {
	s := &vsa.VerificationSummary{
		Verifier:     &vsa.VerificationSummary_Verifier{Id: version.Repository},
		TimeVerified: timestamppb.New(e.Report.Finished.Truncate(time.Second)), ResourceUri: e.Names[0],
		Policy: &vsa.VerificationSummary_Policy{Uri: version.Page("reference/rules.md")}, VerificationResult: Passed,
		VerifiedLevels: []string{level}, SlsaVersion: "1.1",
	}
	if e.Report.Result != plan.Clean {
		s.VerificationResult, s.VerifiedLevels = Failed, []string{Failed}
	}
	predicate, err := asStruct(s)
	if err != nil {
		return "", nil, err
	}
	audit := Audit{Tool: e.Report.Tool, Result: e.Report.Result}
	audit.Rules = show.Each(e.Report.Rules, func(c plan.Check) plan.Check {
		return plan.Check{Item: c.Item, Phase: c.Phase, Outcome: c.Outcome, Reason: c.Reason}
	})
	text, err := json.Marshal(audit)
	if err != nil {
		return "", nil, err
	}
	field := &structpb.Value{}
	if err := protojson.Unmarshal(text, field); err != nil {
		return "", nil, err
	}
	predicate.Fields[auditField] = field
	return summaryType, predicate, nil
}

func asStruct(m proto.Message) (*structpb.Struct, error) {
	text, err := protojson.Marshal(m)
	if err != nil {
		return nil, err
	}
	s := &structpb.Struct{}
	return s, protojson.Unmarshal(text, s)
}

// Statement is what the verified statements of a file say.
type Statement struct {
	// Key is the identifier of the key.
	Key string `json:"key"`
	// Digest is the content digest of the disk, and Names are its names.
	Digest string   `json:"digest"`
	Names  []string `json:"names"`
	// Result is Passed or Failed, at the time Verified.
	Result   string    `json:"result"`
	Verified time.Time `json:"verified"`
	Audit    Audit     `json:"audit"`
	// Provenance says whether a statement says what the image was made from.
	Provenance bool `json:"provenance"`
	// Bill says whether a statement is a bill of materials, and Components counts what it lists.
	Bill       bool `json:"sbom"`
	Components int  `json:"components"`
}

// Verify reads statements that the key has signed. All must be about one disk, and one
// must be the summary of an audit.
func Verify(ctx context.Context, text []byte, key Key) (Statement, error) {
	verifier, err := dsse.NewEnvelopeVerifier(key)
	if err != nil {
		return Statement{}, fmt.Errorf("verifying the statement: %w", err)
	}
	var all Statement
	for n, line := range slices.Collect(bytes.Lines(text)) {
		if err := all.add(ctx, verifier, line); err != nil {
			return Statement{}, fmt.Errorf("verifying the statement in line %d: %w", n+1, err)
		}
	}
	if all.Result == "" {
		return Statement{}, errors.New("verifying the statement: no line has the summary of an audit")
	}
	return all, nil
}

func (all *Statement) add(ctx context.Context, verifier *dsse.EnvelopeVerifier, line []byte) error {
	var envelope dsse.Envelope
	if err := json.Unmarshal(line, &envelope); err != nil {
		return fmt.Errorf("reading the envelope: %w", err)
	}
	accepted, body, err := verifier.VerifyAndDecode(ctx, &envelope)
	if err != nil {
		return fmt.Errorf("the key has not signed this statement: %w", err)
	}
	if envelope.PayloadType != payloadType {
		return fmt.Errorf("the type of the payload is %q, not %s", envelope.PayloadType, payloadType)
	}
	s := &intoto.Statement{}
	if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(body, s); err != nil {
		return err
	}
	if err := s.Validate(); err != nil {
		return err
	}
	all.Key = accepted[0].KeyID
	for _, subject := range s.Subject {
		digest := "sha256:" + subject.Digest["sha256"]
		if all.Digest != "" && all.Digest != digest {
			return fmt.Errorf("the statement is about two disks: %s and %s", all.Digest, digest)
		}
		all.Digest = digest
		if !slices.Contains(all.Names, subject.Name) {
			all.Names = append(all.Names, subject.Name)
		}
	}
	switch s.PredicateType {
	case provenanceType:
		all.Provenance = true
	case billType:
		all.Bill, all.Components = true, len(s.Predicate.GetFields()["components"].GetListValue().GetValues())
	case summaryType:
		return all.summarize(s.Predicate)
	}
	return nil
}

func (all *Statement) summarize(predicate *structpb.Struct) error {
	if all.Result != "" {
		return errors.New("the file has two summaries of an audit")
	}
	text, err := protojson.Marshal(predicate)
	if err != nil {
		return err
	}
	s := &vsa.VerificationSummary{}
	if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(text, s); err != nil {
		return err
	}
	if id := s.GetVerifier().GetId(); id != version.Repository {
		return fmt.Errorf("the summary is that of %q, not of eksnode", id)
	}
	all.Result, all.Verified = s.VerificationResult, s.TimeVerified.AsTime()
	extension := struct {
		Audit *Audit `json:"eksnode_audit"`
	}{&all.Audit}
	return json.Unmarshal(text, &extension)
}
