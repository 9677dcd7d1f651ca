package awsapi

import (
	"encoding/json"
	"fmt"
)

// ImageActions are the permissions for listing, comparing, publishing and retiring
// images, and no others. A test compares them with the calls.
func ImageActions() []string {
	return []string{
		"autoscaling:DescribeAutoScalingGroups", "autoscaling:DescribeLaunchConfigurations",
		"ec2:DeleteSnapshot", "ec2:DeregisterImage", "ec2:DescribeFleets", "ec2:DescribeImageAttribute", "ec2:DescribeImages", "ec2:DescribeInstances",
		"ec2:DescribeLaunchTemplateVersions", "ec2:DescribeLaunchTemplates", "ec2:DescribeRegions", "ec2:DescribeSnapshotAttribute", "ec2:DescribeSnapshots",
		"ec2:DescribeSpotFleetRequests",
		"ec2:DescribeSpotInstanceRequests", "ec2:EnableImageDeprecation",
		"eks:DescribeNodegroup", "eks:ListClusters", "eks:ListNodegroups",
		"ssm:DescribeParameters", "ssm:GetParameter", "ssm:GetParameterHistory", "ssm:GetParameters", "ssm:PutParameter",
	}
}

// statement is a statement of an IAM policy that grants permissions.
type statement struct {
	Sid, Effect string
	Action      []string
	Resource    oneOrMore
	Condition   map[string]map[string]string `json:",omitempty"`
}

// oneOrMore is a list that IAM also writes as one text.
type oneOrMore []string

// MarshalJSON implements json.Marshaler.
func (o oneOrMore) MarshalJSON() ([]byte, error) {
	if len(o) == 1 {
		return json.Marshal(o[0])
	}
	return json.Marshal([]string(o))
}

// Policy is an IAM policy that grants permissions.
func Policy(sid string, actions []string) (string, error) {
	return policy([]statement{{Sid: sid, Effect: "Allow", Action: actions, Resource: oneOrMore{"*"}}})
}

func policy(statements []statement) (string, error) {
	text, err := json.MarshalIndent(struct {
		Version   string
		Statement []statement
	}{"2012-10-17", statements}, "", "  ")
	if err != nil {
		return "", fmt.Errorf("writing the policy: %w", err)
	}
	return string(text) + "\n", nil
}
