//go:build !agent

package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi"
	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi/awsnames"
	"github.com/eksnode/packer-plugin-eksnode/internal/preflight"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/surface"
)

// allowing holds the flags of `eksnode ami policy`.
type allowing struct {
	regions
	account, watermark, approver string
	providers                    []string
	check                        bool
	output                       string
	files                        []string
	classes                      []*preflight.NodeClass
}

func amiPolicyCommand() *cobra.Command {
	var a allowing
	cmd := newCommand("policy", cobra.NoArgs, a.run)
	a.watermark = defaultWatermark
	bind(cmd, targets{
		"account": &a.account, "watermark": &a.watermark, "approver": &a.approver, "allow": &a.providers,
		"check": &a.check,
	})
	cmd.Flags().StringArrayVar(&a.files, "nodeclass", nil, "")
	forms(cmd, map[string]func(string) error{
		"account": awsnames.AccountID.Check, "watermark": awsnames.ImageName, "allow": providerForm,
	})
	required(cmd, [2]string{"account", "name the account that approves AMIs"})
	formatFlag(cmd, &a.output, "text", "json")
	a.flags(cmd)
	return cmd
}

// providerForm is the form of --allow.
func providerForm(text string) error {
	if text != "amazon" && text != "aws-marketplace" && awsnames.AccountID.Check(text) != nil {
		return fmt.Errorf("%q is neither an account ID nor amazon nor aws-marketplace", text)
	}
	return nil
}

func (a *allowing) run(cmd *cobra.Command, _ []string) error {
	for _, name := range a.files {
		text, err := surface.ReadFile(name)
		if err != nil {
			return fmt.Errorf("--nodeclass: %w", err)
		}
		c, err := preflight.ReadNodeClass(name, text)
		if err != nil {
			return fmt.Errorf("--nodeclass: %w", err)
		}
		a.classes = append(a.classes, c)
	}
	if a.check {
		if err := notWith(cmd, "check", "approver"); err != nil {
			return err
		}
		return a.runCheck(cmd)
	}
	if err := onlyWith(cmd, "check", append([]string{"all-regions", "output", "nodeclass"},
		awsFlagNames...)...); err != nil {
		return err
	}
	if a.approver == "" {
		return errors.New("--approver is missing; name the role that may approve, such as " +
			"arn:aws:iam::*:role/image-approver")
	}
	return writeJSON(cmd.OutOrStdout(), a.documents())
}

func (a allowing) key() string { return a.account + ":" + a.watermark }

// guarded are the calls that change who may start what.
func guarded() []string {
	return []string{
		"AttachImageWatermark", "DetachImageWatermark", "DisableAllowedImagesSettings", "EnableAllowedImagesSettings",
		"ReplaceImageCriteriaInAllowedImagesSettings",
	}
}

// documents are the settings, in the forms of `aws ec2
// replace-image-criteria-in-allowed-images-settings --image-criteria`, of Organizations and
// of `aws events put-rule --event-pattern`.
func (a allowing) documents() map[string]any {
	type object = map[string]any
	criteria := []object{{"ImageWatermarks": []object{{"WatermarkKey": a.key()}}}}
	if len(a.providers) > 0 {
		criteria = append(criteria, object{"ImageProviders": a.providers})
	}
	owners := append([]string{a.account}, a.providers...)
	var actions []string
	for _, name := range guarded() {
		actions = append(actions, "ec2:"+name)
	}
	return object{
		"image_criteria": criteria,
		"service_control_policy": object{"Version": "2012-10-17", "Statement": []object{
			{
				"Sid": "EksnodeApproval", "Effect": "Deny", "Action": actions, "Resource": "*",
				"Condition": object{"ArnNotLike": object{"aws:PrincipalArn": a.approver}},
			},
			{ // https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/ExamplePolicies_EC2.html
				"Sid": "EksnodeOwners", "Effect": "Deny", "Action": "ec2:RunInstances",
				"Resource":  "arn:*:ec2:*::image/ami-*",
				"Condition": object{"StringNotEquals": object{"ec2:Owner": owners}},
			},
		}},
		"event_pattern": object{
			"source": []string{"aws.ec2"}, "detail-type": []string{"AWS API Call via CloudTrail"},
			"detail": object{"eventSource": []string{"ec2.amazonaws.com"}, "eventName": guarded()},
		},
	}
}

// allowedRegion is what `eksnode ami policy --check --output json` prints for a region.
type allowedRegion struct {
	Region   string               `json:"region"`
	Settings awsapi.AllowedImages `json:"settings"`
	// Allowed is the number of AMIs in use that the criteria allow, and Others are the rest.
	Allowed int           `json:"allowed"`
	Others  []unmarkedAMI `json:"others"`
}

// unmarkedAMI is an AMI in use that the criteria do not allow.
type unmarkedAMI struct {
	Image string `json:"image"`
	Name  string `json:"name"`
	Owner string `json:"owner"`
	// Own says that the AMI is the account's own, which EC2 does not refuse.
	Own    bool     `json:"own"`
	UsedBy []string `json:"used_by"`
}

func (a allowing) runCheck(cmd *cobra.Command) error {
	opened, err := a.open(cmd.Context())
	if err != nil {
		return err
	}
	read, unread := awsapi.Each(cmd.Context(), opened, a.region)
	list := inOrder(opened, read)
	found := slices.ContainsFunc(list, func(r allowedRegion) bool { return len(r.Others) > 0 })
	err = answer(cmd, a.output, list, func(p *printer) {
		for _, r := range list {
			a.print(p, r)
		}
	})
	if found && unread == nil {
		return errors.Join(exitError(1), err)
	}
	return errors.Join(err, unread)
}

func (a allowing) print(p *printer, r allowedRegion) {
	p.line("%s: allowed AMIs are %s, managed by %s; the criteria allow %d of %d AMIs in use",
		r.Region, r.Settings.State, r.Settings.ManagedBy, r.Allowed, r.Allowed+len(r.Others))
	if r.Settings.State != "disabled" && !slices.Contains(r.Settings.Watermarks, a.key()) {
		p.line("  the criteria of the region do not have the watermark %s", a.key())
	}
	for _, i := range r.Others {
		what := map[bool]string{true: "own, so EC2 does not refuse", false: "would refuse"}[i.Own]
		p.line("  %s %s (%s of %s): %s", what, i.Image, line(i.Name), i.Owner, line(strings.Join(i.UsedBy, ", ")))
	}
}

func (a allowing) region(ctx context.Context, aws *awsapi.AWS) (allowedRegion, error) {
	r := allowedRegion{Region: aws.Region, Others: []unmarkedAMI{}}
	var err error
	if r.Settings, err = aws.AllowedImages(ctx); err != nil {
		return r, err
	}
	own, err := aws.Account(ctx)
	if err != nil {
		return r, err
	}
	used, err := aws.UsedImages(ctx)
	if err != nil {
		return r, err
	}
	for _, c := range a.classes {
		ids, eks, err := c.SelectImages(ctx, aws)
		if err != nil {
			return r, err
		}
		if eks != "" && slices.Contains(a.providers, "amazon") {
			r.Allowed++
		} else if eks != "" {
			r.Others = append(r.Others,
				unmarkedAMI{"EKS's image", eks, "amazon", false, []string{"EC2NodeClass " + c.Name}})
		}
		for _, id := range ids {
			used[id] = append(used[id], "EC2NodeClass "+c.Name)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(used)) {
		i, err := aws.Present(ctx, id)
		if err != nil {
			return r, err
		}
		if a.allows(i) {
			r.Allowed++
			continue
		}
		users := slices.Compact(slices.Sorted(slices.Values(used[id])))
		r.Others = append(r.Others, unmarkedAMI{id, i.Name, i.Owner, i.Owner == own, users})
	}
	return r, nil
}

func (a allowing) allows(i awsapi.Image) bool {
	return slices.ContainsFunc(i.Watermarks, func(w awsapi.Watermark) bool { return w.Key == a.key() }) ||
		slices.Contains(a.providers, i.Owner) || i.OwnerAlias != "" && slices.Contains(a.providers, i.OwnerAlias)
}
