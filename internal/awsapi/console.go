package awsapi

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
)

// ConsoleActions are the permissions for reading an instance's console output.
func ConsoleActions() []string { return []string{"ec2:GetConsoleOutput"} }

var instanceID = regexp.MustCompile(`^i-([0-9a-f]{8}|[0-9a-f]{17})$`)

// IsInstanceID says whether a text is the ID of an instance.
func IsInstanceID(text string) bool { return instanceID.MatchString(text) }

// Console returns the newest console output that EC2 has of an instance, or an
// error if EC2 has none.
func (a *AWS) Console(ctx context.Context, id string) ([]byte, error) {
	doing := "reading the console output of the instance " + id
	if !IsInstanceID(id) {
		return nil, fmt.Errorf("%s: the ID must be i- and 8 or 17 hexadecimal digits", doing)
	}
	text, err := a.console(ctx, id, true)
	var api *APIError
	switch {
	// Only Nitro instances have the latest output.
	// https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_GetConsoleOutput.html
	case errors.As(err, &api) && (strings.HasPrefix(api.Code, "Unsupported") || strings.HasPrefix(api.Code, "InvalidParameter")):
		text, err = a.console(ctx, id, false)
	case err == nil && len(text) == 0:
		text, err = a.console(ctx, id, false)
	}
	switch {
	case IsNotFound(err):
		return nil, fmt.Errorf("%s: %w; check the ID, the account and the region, which is %s", doing, err, a.Region)
	case err != nil:
		return nil, fmt.Errorf("%s: %w", doing, err)
	case len(text) == 0:
		return nil, fmt.Errorf("%s: EC2 has none yet; try again some minutes after the start, or read the logs on the node", doing)
	}
	return text, nil
}

// console returns the console output, latest or as of the last start and stop.
func (a *AWS) console(ctx context.Context, id string, latest bool) ([]byte, error) {
	in := &ec2.GetConsoleOutputInput{InstanceId: aws.String(id)}
	if latest {
		in.Latest = aws.Bool(true)
	}
	out, err := a.ec2.GetConsoleOutput(ctx, in)
	if err != nil {
		return nil, explain("ec2:GetConsoleOutput", err)
	}
	text, err := base64.StdEncoding.DecodeString(aws.ToString(out.Output))
	if err != nil {
		return nil, fmt.Errorf("decoding the answer: %w", err)
	}
	return text, nil
}
