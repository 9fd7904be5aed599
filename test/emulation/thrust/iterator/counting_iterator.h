/* counting_iterator.h: the part of Thrust's iterator that cuda/ uses. */
#ifndef GPUSORT_EMULATED_COUNTING_ITERATOR_H
#define GPUSORT_EMULATED_COUNTING_ITERATOR_H

namespace thrust
{
	template <class T> struct counting_iterator
	{
		T			first;

		explicit counting_iterator(T v)
			: first(v)
		{
		}

		T operator[] (T i) const
		{
			return first + i;
		}
	};
}

#endif
