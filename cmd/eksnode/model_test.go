//go:build linux && !agent

package main

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/aws"
	"github.com/eksnode/packer-plugin-eksnode/e2e/aws/ebsdirect"
	"github.com/eksnode/packer-plugin-eksnode/e2e/aws/endpoint"
	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
	"github.com/eksnode/packer-plugin-eksnode/internal/ami/attest"
	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi"
	"github.com/eksnode/packer-plugin-eksnode/plan"
)

// aged adds three builds of one kind, each with a copy: ami-0000000N and ami-1000000N.
// The numbers grow with the age.
func aged(w *aws.World, _ string) error {
	for n := range 3 {
		for r, region := range aws.LightRegions {
			id := fmt.Sprintf("%d000000%d", r, n)
			i := aws.NewImage("ami-"+id, fmt.Sprintf("node-%d", n), aws.Account, time.Now().UTC().AddDate(0, 0, -1-100*n).Format("2006-01-02T15:04:05.000Z"))
			i.Region, i.Devices = region, []aws.Drive{{Name: "/dev/xvda", Snapshot: "snap-" + id, Size: 1, Type: "gp3"}}
			i.Tags = []aws.Tag{{Key: "eksnode:distro", Value: "debian"}, {Key: "eksnode:kubernetes-version", Value: "1.34.2"}, {Key: "eksnode:build", Value: fmt.Sprint(n)}}
			if r > 0 {
				i.Source, i.SourceRegion = fmt.Sprintf("ami-0000000%d", n), aws.Region
			}
			w.Images = append(w.Images, i)
			w.Snapshots = append(w.Snapshots, &aws.Snapshot{Region: region, ID: "snap-" + id, State: ebsdirect.Completed, Owner: aws.Account, Size: 1, Tags: i.Tags})
		}
		for _, region := range aws.LightRegions {
			w.PutLight(region, "/n/stable", fmt.Sprintf("ami-%d0000001", slices.Index(aws.LightRegions, region)))
			w.PutLight(region, "/n/candidate", fmt.Sprintf("ami-%d0000000", slices.Index(aws.LightRegions, region)))
		}
	}
	orphan := *w.Snapshots[0]
	orphan.ID, orphan.Started = "snap-77777777", "2026-01-01T00:00:00.000Z"
	w.Snapshots = append(w.Snapshots, &orphan)
	return nil
}

// fleetState is what is in the account. Times of deprecation are only yes or no.
func fleetState(w *aws.World) string {
	var lines []string
	for _, i := range w.Images {
		lines = append(lines, fmt.Sprintf("%s %s deprecated %t shared %v", i.ID, i.Region, i.Deprecated != "", i.Shares))
	}
	for _, s := range w.Snapshots {
		lines = append(lines, s.ID)
	}
	for _, region := range aws.LightRegions {
		for _, name := range []string{"/n/stable", "/n/candidate", "/n/new"} {
			lines = append(lines, region+" "+name+" "+w.LightParameter(region, name))
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// parametersHold says that every parameter names an AMI that is there.
func parametersHold(w *aws.World, _ string) error {
	for _, region := range aws.LightRegions {
		for _, name := range []string{"/n/stable", "/n/candidate", "/n/new"} {
			if id := w.LightParameter(region, name); id != "" && (w.Image(id) == nil || w.Image(id).Region != region) {
				return errors.New("a parameter names no AMI of its region")
			}
		}
	}
	return nil
}

// orphans says that no snapshot of ours is left without its AMI, unless the error names
// it.
func orphans(w *aws.World, _ string, failure error) error {
	for _, s := range w.Snapshots {
		if s.ID != "snap-77777777" && w.Image(strings.Replace(s.ID, "snap", "ami", 1)) == nil && !strings.Contains(failure.Error(), s.ID) {
			return errors.New("a snapshot is left that has no AMI")
		}
	}
	return nil
}

// fleets are the scenarios of commands that change AMIs and parameters.
func fleets(t *testing.T) (all []aws.Scenario) {
	t.Helper()
	endpoint.Environment(t, nil)
	for name, run := range map[string]func(cmd *cobra.Command, r regions) error{
		"publish": func(cmd *cobra.Command, r regions) error {
			p := publishing{regions: r, parameter: "/n/new", output: "text"}
			return p.run(cmd, []string{"ami-00000000"})
		},
		"promote": func(cmd *cobra.Command, r regions) error {
			return (&promotion{regions: r, from: "/n/candidate", to: "/n/stable", output: "text"}).run(cmd, nil)
		},
		"retire": func(cmd *cobra.Command, r regions) error {
			all := retirement{regions: r, keep: 2, days: 90, yes: true, output: "text"}
			return all.run(cmd, nil)
		},
		"retire --deregister": func(cmd *cobra.Command, r regions) error {
			all := retirement{regions: r, keep: 2, days: 90, yes: true, deregister: true, output: "text"}
			return all.run(cmd, nil)
		},
		"retire --orphans": func(cmd *cobra.Command, r regions) error {
			all := retirement{regions: r, keep: 3, days: 3, yes: true, orphan: true, output: "text"}
			return all.run(cmd, nil)
		},
	} {
		all = append(all, aws.Scenario{
			Name: name, Begin: aged, State: fleetState, Moment: parametersHold, Left: orphans,
			Run: func(ctx context.Context, client *http.Client, _ string) error {
				cmd := &cobra.Command{}
				cmd.SetContext(ctx)
				cmd.SetOut(io.Discard)
				return run(cmd, regions{aws: awsapi.Options{HTTP: client, Settle: 1, Pause: 1}, names: aws.LightRegions})
			},
		})
	}
	return all
}

// Whatever AWS answers, parameters name AMIs that are there, and nothing is left over.
func TestFleetsKeepTheirPromises(t *testing.T) {
	for _, s := range fleets(t) {
		t.Run(s.Name, func(t *testing.T) { s.Sample(t, 40) })
	}
}

// approvals are the scenarios of approve and revoke, for an AMI and a statement about its
// snapshot. Refused is approve with a statement that says FAILED.
func approvals(t *testing.T) []aws.Scenario {
	t.Helper()
	endpoint.Environment(t, nil)
	key := filepath.Join(t.TempDir(), "key.pem")
	_, secret, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	text, err := x509.MarshalPKCS8PrivateKey(secret)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: text}), 0o600))
	signer, err := attest.OpenSigner(t.Context(), key, nil)
	require.NoError(t, err)
	statement := func(result plan.Result) string {
		file := filepath.Join(t.TempDir(), string(result))
		_, err := attest.Evidence{Names: []string{aws.Region + ":snap-00000000"}, Report: plan.Report{
			Machine: plan.Machine{Digest: "sha256:" + strings.Repeat("0", 64)}, Result: result, Finished: time.Now(),
		}}.Write(t.Context(), signer, file)
		require.NoError(t, err)
		return file
	}
	mark := marking{defaultWatermark, "release 12"}
	run := func(do func(*cobra.Command, awsapi.Options) error) func(context.Context, *http.Client, string) error {
		return func(ctx context.Context, client *http.Client, _ string) error {
			cmd := &cobra.Command{}
			cmd.SetContext(ctx)
			cmd.SetOut(io.Discard)
			return do(cmd, awsapi.Options{HTTP: client, Settle: 1, Pause: 1})
		}
	}
	approve := func(file string) func(*cobra.Command, awsapi.Options) error {
		return func(cmd *cobra.Command, o awsapi.Options) error {
			v := verification{disk: &auditedDisk{aws: o}, file: file, key: key, maxAge: time.Hour, output: "text"}
			return (&approval{v, mark}).run(cmd, []string{"ami-00000000"})
		}
	}
	passed := statement(plan.Clean)
	sum := fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(testkit.Content(t, passed))))
	one := aws.Scenario{
		Begin: aged, Refused: run(approve(statement(plan.Findings))),
		State: func(w *aws.World) string {
			i := w.Image("ami-00000000")
			return fmt.Sprint(len(i.Watermarks) > 0, slices.Contains(i.Tags, aws.Tag{Key: awsapi.StatementTag, Value: sum}))
		},
		Moment: func(w *aws.World, _ string) error {
			i := w.Image("ami-00000000")
			if len(i.Watermarks) > 0 && !slices.Contains(i.Tags, aws.Tag{Key: awsapi.StatementTag, Value: sum}) {
				return errors.New("an AMI has the watermark, but not the tag of its statement")
			}
			return nil
		},
	}
	approved, revoked := one, one
	approved.Name, approved.Run = "approve", run(approve(passed))
	revoked.Name, revoked.Refused = "revoke", nil
	revoked.Begin = func(w *aws.World, folder string) error {
		err := aged(w, folder)
		i := w.Image("ami-00000000")
		i.Watermarks = []aws.Watermark{{Key: aws.Account + ":" + defaultWatermark, Image: i.ID, Region: aws.Region}}
		i.Tags = append(i.Tags, aws.Tag{Key: awsapi.StatementTag, Value: sum})
		return err
	}
	revoked.Run = run(func(cmd *cobra.Command, o awsapi.Options) error {
		return (&revocation{aws: o, mark: mark, output: "text"}).run(cmd, []string{"ami-00000000"})
	})
	return []aws.Scenario{approved, revoked}
}

// Whatever AWS answers and whenever the run is killed, only an AMI with its verified
// statement has the watermark, and the next run ends in the same state.
func TestApprovalsKeepTheirPromises(t *testing.T) {
	for _, s := range approvals(t) {
		t.Run(s.Name, func(t *testing.T) { s.Enumerate(t, s.Cases(t, 6)) })
	}
}
