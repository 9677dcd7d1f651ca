//go:build linux

package aws

import "github.com/eksnode/packer-plugin-eksnode/e2e/aws/endpoint"

type blockOut struct {
	State string `xml:"imageBlockPublicAccessState"`
	By    string `xml:"managedBy"`
}

func (w *World) blockPublic(region string, _ struct{}) (blockOut, error) {
	if by := w.BlockPublic[region]; by != "" {
		return blockOut{"block-new-sharing", by}, nil
	}
	return blockOut{"unblocked", "account"}, nil
}

// defaultLimits are AWS's defaults by code
// (https://docs.aws.amazon.com/general/latest/gr/ec2-service.html,
// https://docs.aws.amazon.com/general/latest/gr/ebs-service.html).
var defaultLimits = map[string]int{"ec2 L-B665C33B": 50000, "ec2 L-0E3CBAB9": 5, "ebs L-309BACF6": 100000}

type quotaIn struct{ ServiceCode, QuotaCode string }

type quotaOut struct {
	Quota struct{ Value int }
}

// quota knows only limits that were raised: Service Quotas has no applied value of some
// quotas (https://docs.aws.amazon.com/servicequotas/2019-06-24/apireference/API_GetServiceQuota.html).
func (w *World) quota(_ string, in quotaIn) (out quotaOut, err error) {
	limit, applied := w.Limits[in.QuotaCode]
	if !applied {
		return out, endpoint.Fail("NoSuchResourceException", "The request failed because the specified service quota does not exist.")
	}
	out.Quota.Value = limit
	return out, nil
}

func (w *World) defaultQuota(_ string, in quotaIn) (out quotaOut, err error) {
	limit, known := defaultLimits[in.ServiceCode+" "+in.QuotaCode]
	if !known {
		return out, endpoint.Fail("NoSuchResourceException", "The request failed because the specified service quota does not exist.")
	}
	out.Quota.Value = limit
	return out, nil
}
