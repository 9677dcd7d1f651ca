package nodeapi

import (
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"
)

// ec2Version is the version of EC2's API.
const ec2Version = "2016-11-15"

// PrivateDNSName is the instance's private DNS name. A young instance has none
// for some seconds; after three minutes that is an error.
func (c *Client) PrivateDNSName(ctx context.Context, instanceID string) (string, error) {
	const patience = 3 * time.Minute
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("the instance has no private DNS name after %s; enableDnsSupport must be on in its VPC", patience))
	defer cancel()
	for wait := c.Wait; ; wait = min(2*wait, 10*time.Second) {
		var answer struct {
			Names []string `xml:"reservationSet>item>instancesSet>item>privateDnsName"`
		}
		if err := c.ec2(ctx, url.Values{"Action": {"DescribeInstances"}, "InstanceId.1": {instanceID}}, &answer); err != nil {
			return "", err
		}
		if len(answer.Names) == 1 && answer.Names[0] != "" {
			return answer.Names[0], nil
		}
		if cause := pause(ctx, wait); cause != nil {
			return "", cause
		}
	}
}

// Limits are how many network interfaces the default card of an instance type
// takes, how many IPv4 addresses each of them, and how large the type is.
type Limits struct{ ENIs, IPsPerENI, VCPUs, MemoryMiB int }

// InstanceLimits asks EC2 about an instance type.
func (c *Client) InstanceLimits(ctx context.Context, instanceType string) (Limits, error) {
	var answer struct {
		VCPUs     []int `xml:"instanceTypeSet>item>vCpuInfo>defaultVCpus"`
		MemoryMiB []int `xml:"instanceTypeSet>item>memoryInfo>sizeInMiB"`
		Networks  []struct {
			Default   int `xml:"defaultNetworkCardIndex"`
			IPsPerENI int `xml:"ipv4AddressesPerInterface"`
			ENIs      int `xml:"maximumNetworkInterfaces"`
			Cards     []struct {
				Index int `xml:"networkCardIndex"`
				ENIs  int `xml:"maximumNetworkInterfaces"`
			} `xml:"networkCards>item"`
		} `xml:"instanceTypeSet>item>networkInfo"`
	}
	if err := c.ec2(ctx, url.Values{"Action": {"DescribeInstanceTypes"}, "InstanceType.1": {instanceType}}, &answer); err != nil {
		return Limits{}, err
	}
	if len(answer.Networks) != 1 {
		return Limits{}, fmt.Errorf("EC2 says nothing about %s", instanceType)
	}
	n := answer.Networks[0]
	l := Limits{ENIs: n.ENIs, IPsPerENI: n.IPsPerENI}
	if len(answer.VCPUs) == 1 && len(answer.MemoryMiB) == 1 {
		l.VCPUs, l.MemoryMiB = answer.VCPUs[0], answer.MemoryMiB[0]
	}
	for _, card := range n.Cards {
		if card.Index == n.Default {
			l.ENIs = card.ENIs
		}
	}
	if l.ENIs < 1 || l.IPsPerENI < 1 {
		return Limits{}, errors.New("EC2's answer has no network limits")
	}
	return l, nil
}

func (c *Client) ec2(ctx context.Context, query url.Values, into any) error {
	query.Set("Version", ec2Version)
	body, err := c.call(ctx, request{
		service: "ec2", method: http.MethodPost, path: "/", body: query.Encode(),
		contentType: "application/x-www-form-urlencoded; charset=utf-8", parse: xmlError,
	})
	if err != nil {
		return fmt.Errorf("ec2:%s: %w", query.Get("Action"), err)
	}
	if err := xml.Unmarshal(body, into); err != nil {
		return fmt.Errorf("ec2:%s: reading the answer: %w", query.Get("Action"), err)
	}
	return nil
}

func xmlError(status int, _ http.Header, body []byte) *Error {
	var answer struct {
		Code    string `xml:"Errors>Error>Code"`
		Message string `xml:"Errors>Error>Message"`
	}
	if xml.Unmarshal(body, &answer) != nil {
		return &Error{Status: status} // a proxy's page
	}
	return &Error{status, answer.Code, answer.Message}
}
