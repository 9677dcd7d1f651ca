//go:build !agent

package main

import (
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/eksnode/packer-plugin-eksnode/internal/ami/snapshot"
	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi"
	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi/awsnames"
	"github.com/eksnode/packer-plugin-eksnode/plan"
)

// approval holds the flags of `eksnode ami approve`.
type approval struct {
	verification
	mark marking
}

// marking are the flags that approve and revoke share.
type marking struct{ watermark, reason string }

const defaultWatermark = "eksnode/audited"

// reasonMost is the length of the longest reason: a tag has 256 characters.
const reasonMost = 200

func (m *marking) flags(cmd *cobra.Command) {
	m.watermark = defaultWatermark
	bind(cmd, targets{"watermark": &m.watermark, "reason": &m.reason})
	forms(cmd, map[string]func(string) error{"watermark": awsnames.ImageName, "reason": func(text string) error {
		if utf8.RuneCountInString(text) > reasonMost {
			return fmt.Errorf("a reason has at most %d characters", reasonMost)
		}
		return nil
	}})
	required(cmd, [2]string{"reason", "say why in a few words"})
}

// marked is the result of approve and revoke.
type marked struct {
	Image     string `json:"image"`
	Region    string `json:"region"`
	Watermark string `json:"watermark"`
	Action    string `json:"action"` // approved or revoked
	Reason    string `json:"reason"`
}

func (m marked) print(cmd *cobra.Command, output string) error {
	return answer(cmd, output, m, func(p *printer) {
		p.line("%s %s in %s: the watermark %s is %s", m.Action, m.Image, m.Region, m.Watermark,
			map[string]string{"approved": "attached", "revoked": "gone"}[m.Action])
	})
}

func amiApproveCommand() *cobra.Command {
	var a approval
	cmd := newCommand("approve AMI", named("an AMI", 1), a.run)
	formatFlag(cmd, &a.output, "text", "json")
	a.mark.flags(cmd)
	a.flags(cmd, awsapi.ApprovePolicy)
	return cmd
}

func (a *approval) run(cmd *cobra.Command, args []string) error {
	if _, err := snapshot.ParseAMI(args[0]); err != nil {
		return err
	}
	r, v, err := a.verify(cmd, args[0])
	if err != nil {
		return err
	}
	if plan.ResultOf(r.cases()) != plan.Clean {
		return errors.Join(r.print(cmd, a.output), fmt.Errorf("%s is not approved: the verification failed", args[0]))
	}
	i := v.disk.volume.Image
	if err := v.disk.volume.AWS.Approve(cmd.Context(), i, v.text, a.mark.watermark, a.mark.reason); err != nil {
		return err
	}
	return marked{i.ID, i.Region, a.mark.watermark, "approved", a.mark.reason}.print(cmd, a.output)
}

// revocation holds the flags of `eksnode ami revoke`.
type revocation struct {
	aws    awsapi.Options
	mark   marking
	output string
}

func amiRevokeCommand() *cobra.Command {
	var r revocation
	cmd := newCommand("revoke AMI", named("an AMI", 1), r.run)
	r.mark.flags(cmd)
	formatFlag(cmd, &r.output, "text", "json")
	awsFlags(cmd, &r.aws)
	return cmd
}

func (r *revocation) run(cmd *cobra.Command, args []string) error {
	ctx := cmd.Context()
	image, err := snapshot.ParseAMI(args[0])
	if err != nil {
		return err
	}
	aws, err := image.Open(ctx, r.aws)
	if err != nil {
		return err
	}
	i, err := aws.Image(ctx, image.ID)
	if err != nil {
		return err
	}
	for _, w := range i.Watermarks {
		if w.Named(r.mark.watermark) {
			if err := aws.DetachWatermark(ctx, i.ID, w.Key); err != nil {
				return err
			}
		}
	}
	text := "revoked " + time.Now().UTC().Format(time.RFC3339) + " " + r.mark.reason
	if err := aws.TagImage(ctx, i.ID, map[string]string{awsapi.ApprovalTag: text}); err != nil {
		return err
	}
	return marked{i.ID, i.Region, r.mark.watermark, "revoked", r.mark.reason}.print(cmd, r.output)
}
