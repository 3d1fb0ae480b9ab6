-- What readers have learnt of the numbers that are given to other events by the next filling is void.
UPDATE life SET number = number + 1
